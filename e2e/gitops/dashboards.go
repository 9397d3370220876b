package main

import (
	"errors"
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// checkDashboard reads a dashboard by Grafana's own schemas, of dashboards, of the panels that we have, and of Prometheus' queries:
// unknown fields, missing ones and those of another type are errors.
func checkDashboard(text []byte) error {
	runtime := cog.NewRuntime()
	runtime.RegisterPanelcfgVariant(stat.VariantConfig())
	runtime.RegisterPanelcfgVariant(timeseries.VariantConfig())
	runtime.RegisterDataqueryVariant(prometheus.VariantConfig())
	var board dashboard.Dashboard
	// An empty list of errors is none, but not nil.
	var found cog.BuildErrors
	if err := board.UnmarshalJSONStrict(text); err != nil && !(errors.As(err, &found) && len(found) == 0) {
		return err
	}
	if err := board.Validate(); err != nil {
		return err
	}
	for _, panel := range board.Panels {
		if panel.Panel == nil {
			continue
		}
		kind := panel.Panel.Type
		if kind != "stat" && kind != "timeseries" {
			return fmt.Errorf("no schema for panels of type %s is known here", kind)
		}
		if panel.Panel.Title == nil || panel.Panel.Description == nil {
			return errors.New("a panel has no title or no description")
		}
	}
	return nil
}
