package plinth_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"plinth.dev/plinth/golden"
)

//go:generate go test . -run TestMetricsPage -update

// metricsPage lists every metric of the programs.
const metricsPage = "docs/reference/metrics.md"

const metricsIntroduction = `# Metrics

<!-- generated from the sources by make generate -->

Both programs serve them at ` + "`/metrics`" + `: the agent at its ` + "`--listen`" + `, the controller at its ` + "`--secure-port`" + `, where it stands beside what
the Kubernetes libraries measure of themselves (` + "`workqueue_*{name=\"plinth_nodes\"}`, also `plinth_loadbalancer`, `plinth_volumes` and `plinth_directory`, `rest_client_*`, `leader_election_*`" + ` and others). What
` + "`reason`" + ` can be is listed in [reasons](reasons.md). Of the controllers only the leader has ` + "`plinth_*`" + `, but for ` + "`plinth_build_info`" + `.

## What to alert on

| expression | for | what it means |
|---|---|---|
| ` + "`plinth_inventory_ready == 0`" + ` | 1m | the newest edit of the inventory was refused, or nothing is in force; see [the status](in-force.md#the-status) |
| ` + "`sum(plinth_services_waiting) > 0`" + ` | 5m | Services have less than they ask for; the label ` + "`reason`" + ` has the reason |
| ` + "`sum by (reason) (plinth_vips_unannounced{reason!=\"NoEndpoint\"}) > 0`" + ` | 1m | VIPs are in use that nobody announces; the condition ` + "`plinth.dev/VIPAnnounced`" + ` of their Services has [the reason](reasons.md#why-a-vip-is-announced-by-nobody). Services without an endpoint are left out here |
| ` + "`plinth_pool_addresses_free < 0.1 * plinth_pool_addresses`" + ` | 1h | fewer than a tenth of a pool's addresses are left |
| ` + "`plinth_agent_session_up == 0`" + ` | 2m | a BGP session is down; ` + "`plinth_agent_session_down`" + ` has the likely cause |
| ` + "`plinth_agent_routes_held < plinth_agent_routes_wanted`" + ` | 2m | the kernel lacks routes to pods; ` + "`/status`" + ` has those that failed |
| ` + "`plinth_agent_waiting == 1`" + ` | 2m | an agent lacks something that a plan is made of, and keeps its last plan |
| ` + "`plinth_agent_session_refused_prefixes > 0`" + ` | 1m | [the guard](reasons.md#why-a-session-does-not-announce-what-was-planned) withholds prefixes: a mistake in Plinth, or an inventory at odds with the network |
| ` + "`plinth_agent_proxy_healthy == 0`" + ` | 2m | kube-proxy on a machine does not serve, so that the machine announces [no VIP](reasons.md#why-a-vip-is-announced-by-nobody) |
| ` + "`plinth_agent_proxy_rules_overdue > 0`" + ` | 1m | a machine announces VIPs that its kube-proxy has [no rules](../explanation/announcements.md#when-vips-come-late) for |
| ` + "`plinth_agent_proxy_rules_lost > 0`" + ` | 1m | the [rules of kube-proxy are gone](../explanation/announcements.md#when-the-rules-are-gone) on a machine |
| ` + "`plinth_agent_bad_kernel_settings > 0`" + ` | 5m | settings of a machine's kernel keep packets from pods and VIPs; ` + "`settings`" + ` in its ` + "`/status`" + ` names [them](agent.md#kernel-settings) |
| ` + "`plinth_agent_api_silence_seconds > 300`" + ` | | an agent does not reach the API server, and works with what it knew |

Alert on the scrape targets being absent as well: an agent that does not run reports nothing.
`

// programs says which program shows the metrics of a package, in the page's order.
var programs = []struct {
	name     string
	packages []string
}{
	{"plinth-cloud-controller-manager", []string{"inventory/source", "provider/node", "provider/vip"}},
	{"plinth-agent", []string{"provider/agent", "provider/agent/link", "provider/agent/report"}},
	{"Both", []string{"buildinfo"}},
}

type metric struct {
	room, name, kind, help string
	labels                 []string
}

func TestMetricsPage(t *testing.T) {
	var page strings.Builder
	page.WriteString(metricsIntroduction)
	all, written := metrics(t), 0
	for _, p := range programs {
		fmt.Fprintf(&page, "\n## %s\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n", p.name)
		for _, m := range all {
			if slices.Contains(p.packages, m.room) {
				fmt.Fprintf(&page, "| `%s` | %s | %s | %s |\n", m.name, m.kind, quoted(m.labels), m.help)
				written++
			}
		}
	}
	if written != len(all) {
		t.Errorf("%d of %d metrics are of packages that programs does not name", len(all)-written, len(all))
	}
	golden.Hold(t, metricsPage, []byte(page.String()))
}

func TestMetricsFollowTheConventions(t *testing.T) {
	var exposition strings.Builder
	for _, m := range metrics(t) {
		fmt.Fprintf(&exposition, "# HELP %[1]s %[2]s\n# TYPE %[1]s %[3]s\n", m.name, m.help, m.kind)
		if m.kind == "histogram" {
			fmt.Fprintf(&exposition, "%[1]s_bucket{le=\"+Inf\"} 0\n%[1]s_sum 0\n%[1]s_count 0\n", m.name)
			continue
		}
		sample := make([]string, len(m.labels))
		for i, l := range m.labels {
			sample[i] = l + `="x"`
		}
		fmt.Fprintf(&exposition, "%s{%s} 0\n", m.name, strings.Join(sample, ","))
	}
	problems, err := promlint.New(strings.NewReader(exposition.String())).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// metrics reads every metric's declaration in the sources, so that none can be
// forgotten here. They are sorted by name.
func metrics(t *testing.T) []metric {
	t.Helper()
	var all []metric
	for _, r := range rooms(t) {
		src := sources(t, r)
		for _, f := range src.files {
			ast.Inspect(f, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					if m, ok := src.metric(t, call); ok {
						m.room = r.place()
						all = append(all, m)
					}
				}
				return true
			})
		}
	}
	slices.SortFunc(all, func(a, b metric) int { return cmp.Compare(a.name, b.name) })
	for i, m := range all[1:] {
		if m.name == all[i].name {
			t.Errorf("%s is declared twice", m.name)
		}
	}
	return all
}

// source is the syntax of one package, and what its variables are declared as.
type source struct {
	set   *token.FileSet
	files []*ast.File
	vars  map[string]ast.Expr
}

func sources(t *testing.T, r room) source {
	t.Helper()
	s := source{set: token.NewFileSet(), vars: map[string]ast.Expr{}}
	for _, name := range r.GoFiles {
		f, err := parser.ParseFile(s.set, filepath.Join(r.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		s.files = append(s.files, f)
		ast.Inspect(f, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == len(v.Names) {
				for i, name := range v.Names {
					s.vars[name.Name] = v.Values[i]
				}
			}
			return true
		})
	}
	return s
}

// kinds are the constructors of metrics; the type of a Desc follows from its name.
var kinds = map[string]string{
	"NewCounter": "counter", "NewGauge": "gauge", "NewHistogram": "histogram", "NewDesc": "",
	"NewCounterVec": "counter", "NewGaugeVec": "gauge", "NewHistogramVec": "histogram",
	"NewCounterFunc": "counter", "NewGaugeFunc": "gauge",
}

// metric reads a call that declares a metric.
func (s source) metric(t *testing.T, call *ast.CallExpr) (metric, bool) {
	function, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return metric{}, false
	}
	library, ok := function.X.(*ast.Ident)
	kind, declares := kinds[function.Sel.Name]
	if !ok || library.Name != "prometheus" || !declares {
		return metric{}, false
	}
	m := metric{kind: kind}
	switch {
	case function.Sel.Name == "NewDesc":
		m.name, m.help, m.labels = s.text(t, call.Args[0]), s.text(t, call.Args[1]), s.list(t, call.Args[2])
		m.kind = "gauge"
		if strings.HasSuffix(m.name, "_total") {
			m.kind = "counter"
		}
	default:
		options := fields(call.Args[0])
		m.name, m.help = s.text(t, options["Name"]), s.text(t, options["Help"])
		if strings.HasSuffix(function.Sel.Name, "Vec") {
			m.labels = s.list(t, call.Args[1])
		}
	}
	return m, true
}

func fields(e ast.Expr) map[string]ast.Expr {
	all := map[string]ast.Expr{}
	if literal, ok := e.(*ast.CompositeLit); ok {
		for _, element := range literal.Elts {
			pair := element.(*ast.KeyValueExpr)
			all[pair.Key.(*ast.Ident).Name] = pair.Value
		}
	}
	return all
}

// text is the value of a string that is written out, perhaps in parts.
func (s source) text(t *testing.T, e ast.Expr) string {
	t.Helper()
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil {
			return text
		}
	case *ast.BinaryExpr:
		return s.text(t, e.X) + s.text(t, e.Y)
	case *ast.Ident:
		if value, ok := s.vars[e.Name]; ok {
			return s.text(t, value)
		}
	}
	t.Fatalf("%s: a metric's name, help and labels are to be written out, so that the page can list them", s.set.Position(e.Pos()))
	return ""
}

func (s source) list(t *testing.T, e ast.Expr) []string {
	t.Helper()
	if name, ok := e.(*ast.Ident); ok && name.Name == "nil" {
		return nil
	} else if ok {
		e = s.vars[name.Name]
	}
	literal, ok := e.(*ast.CompositeLit)
	if !ok {
		t.Fatalf("%s: labels are to be written out as a list", s.set.Position(e.Pos()))
	}
	var all []string
	for _, element := range literal.Elts {
		all = append(all, s.text(t, element))
	}
	return all
}

func quoted(words []string) string {
	all := slices.Clone(words)
	for i, w := range all {
		all[i] = "`" + w + "`"
	}
	return strings.Join(all, ", ")
}
