package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// confined is a query as a user wrote it and as the operator sends it.
type confined struct {
	// Original is the query of the user.
	Original string `json:"original"`
	// Sent is what the operator sends in its place.
	Sent string `json:"sent"`
	// Freshness is the second query that the operator sends, empty for none.
	Freshness string `json:"freshness"`
	// Label and Namespace are the matcher that each selector must carry.
	Label     string `json:"label"`
	Namespace string `json:"namespace"`
}

// dialects are a server's parser with its defaults, and one with every experiment switched on.
var dialects = []parser.Options{
	{},
	{
		EnableExperimentalFunctions: true, ExperimentalDurationExpr: true,
		EnableExtendedRangeSelectors: true, EnableBinopFillModifiers: true,
	},
}

// checkQueries reads confined queries, one JSON object a line, and holds each against Prometheus's own parser. Every
// selector of what is sent demands the namespace; without these demands it has the structure of the original; and what
// Prometheus refuses is refused in both forms. It prints how many there were, and how many of them Prometheus reads.
func checkQueries(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	all, read := 0, 0
	var found []error
	for lines.Scan() {
		var query confined
		if err := json.Unmarshal(lines.Bytes(), &query); err != nil {
			return fmt.Errorf("line %d: %w", all+1, err)
		}
		all++
		understood := false
		for _, dialect := range dialects {
			ok, err := checkQuery(parser.NewParser(dialect), query)
			if err != nil && len(found) < 10 {
				found = append(found, fmt.Errorf("%q is sent as %q: %w", query.Original, query.Sent, err))
			}
			understood = understood || ok
		}
		if understood {
			read++
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if len(found) > 0 {
		return errors.Join(found...)
	}
	_, err := fmt.Fprintf(out, "%d queries, %d of them read by Prometheus\n", all, read)
	return err
}

// checkQuery reports whether Prometheus reads the query.
func checkQuery(queries parser.Parser, query confined) (bool, error) {
	original, refused := queries.ParseExpr(query.Original)
	sent, err := queries.ParseExpr(query.Sent)
	// A selector without a matcher is refused by Prometheus and gets one here.
	if refused != nil && err == nil && strings.Contains(refused.Error(), "must contain at least one non-empty matcher") {
		return false, takeMatchers(sent, query.Label, query.Namespace)
	}
	if (refused == nil) != (err == nil) {
		return false, fmt.Errorf("Prometheus says %v of the original and %v of what is sent", refused, err)
	}
	if err != nil {
		return false, nil
	}
	if err := takeMatchers(sent, query.Label, query.Namespace); err != nil {
		return false, err
	}
	if sent.String() != original.String() {
		return false, fmt.Errorf("without the matchers it is %s, and the original %s", sent, original)
	}
	if query.Freshness == "" {
		return true, nil
	}
	freshness, err := queries.ParseExpr(query.Freshness)
	if err != nil {
		return false, fmt.Errorf("%s: %w", query.Freshness, err)
	}
	return true, takeMatchers(freshness, query.Label, query.Namespace)
}

// takeMatchers takes one demand for the namespace off each selector. It is an error if a selector has none.
func takeMatchers(expression parser.Expr, label, namespace string) error {
	var missing error
	parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		for index, matcher := range selector.LabelMatchers {
			if matcher.Type == labels.MatchEqual && matcher.Name == label && matcher.Value == namespace {
				selector.LabelMatchers = append(selector.LabelMatchers[:index:index], selector.LabelMatchers[index+1:]...)
				return nil
			}
		}
		missing = fmt.Errorf("selector %s does not demand %s=%q", selector, label, namespace)
		return nil
	})
	return missing
}
