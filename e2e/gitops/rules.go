package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// checkRules runs Prometheus's own check of rule files, that of `promtool check rules`, on the file rules, and its
// parser of queries on each panel of the dashboards, which must follow Grafana's schema too. It prints how much it has looked at.
func checkRules(rules string, dashboards []string, out io.Writer) error {
	queries := parser.NewParser(parser.Options{})
	groups, found := rulefmt.ParseFile(rules, false, model.UTF8Validation, queries, slog.New(slog.DiscardHandler))
	if len(found) > 0 {
		return errors.Join(found...)
	}
	counted := 0
	for _, group := range groups.Groups {
		counted += len(group.Rules)
	}
	if counted == 0 {
		return fmt.Errorf("%s: no rules", rules)
	}
	panels := 0
	for _, path := range dashboards {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := checkDashboard(text); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		var fields any
		if err := json.Unmarshal(text, &fields); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, expression := range expressionsIn(fields) {
			panels++
			if _, err := queries.ParseExpr(filledIn.Replace(expression)); err != nil {
				return fmt.Errorf("%s: %s: %w", path, expression, err)
			}
		}
	}
	_, err := fmt.Fprintf(out, "%d rules, %d queries of dashboards\n", counted, panels)
	return err
}

// filledIn puts in what Grafana puts in for its variables before Prometheus sees a query.
var filledIn = strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$pool", ".*")

// expressionsIn finds the field expr of all targets.
func expressionsIn(value any) []string {
	var found []string
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			if text, ok := field.(string); ok && key == "expr" {
				found = append(found, text)
			}
			found = append(found, expressionsIn(field)...)
		}
	case []any:
		for _, item := range value {
			found = append(found, expressionsIn(item)...)
		}
	}
	return found
}
