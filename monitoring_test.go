package plinth_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

const chartFolder = "deploy/helm/plinth/"

// TestTheChartsAlertsAreThoseOfTheMetricsPage: one table, read by people and by Prometheus.
func TestTheChartsAlertsAreThoseOfTheMetricsPage(t *testing.T) {
	text, err := os.ReadFile(chartFolder + "alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rules []struct {
		Alert       string            `yaml:"alert"`
		Expr        string            `yaml:"expr"`
		For         string            `yaml:"for"`
		Labels      map[string]string `yaml:"labels"`
		Annotations map[string]string `yaml:"annotations"`
	}
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	var have, want []string
	for _, r := range rules {
		have = append(have, r.Expr+" for "+r.For)
		if !strings.HasPrefix(r.Alert, "Plinth") || r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("an alert lacks a name, a severity or what it means: %+v", r)
		}
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([0-9a-z]*) ?\\|").FindAllStringSubmatch(metricsIntroduction, -1) {
		want = append(want, row[1]+" for "+row[2])
	}
	if len(want) == 0 || !slices.Equal(have, want) {
		t.Errorf("the chart alerts on\n%s\nthe page on\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
}

// TestTheDashboardAsksForMetricsThatThereAre checks names and labels; a panel of a metric that
// is gone would just stay empty.
func TestTheDashboardAsksForMetricsThatThereAre(t *testing.T) {
	text, err := os.ReadFile(chartFolder + "dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	labels := map[string][]string{}
	for _, m := range metrics(t) {
		labels[m.name] = m.labels
		if m.kind == "histogram" {
			labels[m.name+"_bucket"] = append(slices.Clone(m.labels), "le")
		}
	}
	name, by := regexp.MustCompile(`plinth_[a-z_]+`), regexp.MustCompile(`by \(([a-z, ]+)\)`)
	asked := 0
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			asked++
			for _, n := range name.FindAllString(target.Expr, -1) {
				if _, ok := labels[n]; !ok {
					t.Errorf("%s: there is no metric %s", p.Title, n)
				}
				for _, m := range by.FindAllStringSubmatch(target.Expr, -1) {
					for l := range strings.SplitSeq(m[1], ", ") {
						if !slices.Contains(labels[n], l) {
							t.Errorf("%s: metric %s has no label %s", p.Title, n, l)
						}
					}
				}
			}
		}
	}
	if asked == 0 {
		t.Error("the dashboard asks for nothing")
	}
}
