package importer

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.universe.tf/metallb/api/v1beta1"
	"go.universe.tf/metallb/api/v1beta2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	sigsyaml "sigs.k8s.io/yaml"

	"plinth.dev/plinth/inventory/document"
)

// literalKinds are the objects of MetalLB's tests that are read out of Go, by the name of their type.
var literalKinds = map[string]struct {
	apiVersion string
	of         reflect.Type
}{
	"IPAddressPool":    {"metallb.io/v1beta1", reflect.TypeFor[v1beta1.IPAddressPool]()},
	"BGPPeer":          {"metallb.io/v1beta2", reflect.TypeFor[v1beta2.BGPPeer]()},
	"BFDProfile":       {"metallb.io/v1beta1", reflect.TypeFor[v1beta1.BFDProfile]()},
	"BGPAdvertisement": {"metallb.io/v1beta1", reflect.TypeFor[v1beta1.BGPAdvertisement]()},
	"L2Advertisement":  {"metallb.io/v1beta1", reflect.TypeFor[v1beta1.L2Advertisement]()},
	"Community":        {"metallb.io/v1beta1", reflect.TypeFor[v1beta1.Community]()},
	"Node":             {"v1", reflect.TypeFor[corev1.Node]()},
}

// literalConstants are what stands in literals under a name of another package.
var literalConstants = map[string]any{
	"Second": time.Second, "Millisecond": time.Millisecond, "Minute": time.Minute,
	"LabelSelectorOpIn": "In", "LabelSelectorOpNotIn": "NotIn", "LabelSelectorOpExists": "Exists", "LabelSelectorOpDoesNotExist": "DoesNotExist",
	"ExternalASNMode": "external", "InternalASNMode": "internal",
	"NodeNetworkUnavailable": "NetworkUnavailable", "ConditionTrue": "True", "ConditionFalse": "False", "NodeInternalIP": "InternalIP",
}

// literals read objects that stand in Go as composite literals.
type literals struct {
	names   []definition
	unknown []string // objects with a value that is not understood
}

// definition gives an expression a name, from a place of the file on.
type definition struct {
	name string
	at   token.Pos
	is   ast.Expr
}

// literalsIn are the objects of a Go file, as documents: all of a ClusterResources together, as one configuration, and what stands elsewhere alone.
// An object with a value that is not understood is left out, and is among the unknown ones.
func literalsIn(t *testing.T, name string, source []byte) (docs []document.Document, unknown []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, source, 0)
	if err != nil {
		t.Fatal(err)
	}
	var l literals
	ast.Inspect(file, l.define)
	number := 0
	add := func(objects []string) {
		if number++; len(objects) > 0 {
			docs = append(docs, document.Document{Source: fmt.Sprintf("%s#%d", name, number), Data: []byte(strings.Join(objects, "---\n"))})
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		if nameOf(lit.Type) == "ClusterResources" {
			var objects []string
			ast.Inspect(lit, func(n ast.Node) bool {
				found, is := l.objects(n)
				objects = append(objects, found...)
				return !is
			})
			add(objects)
			return false
		}
		objects, is := l.objects(lit)
		if is {
			add(objects)
		}
		return !is
	})
	return docs, l.unknown
}

// define collects what has a name.
func (l *literals) define(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.AssignStmt:
		for i, to := range n.Lhs {
			if id, ok := to.(*ast.Ident); ok && len(n.Lhs) == len(n.Rhs) {
				l.names = append(l.names, definition{id.Name, n.Pos(), n.Rhs[i]})
			}
		}
	case *ast.ValueSpec:
		for i, id := range n.Names {
			if len(n.Names) == len(n.Values) {
				l.names = append(l.names, definition{id.Name, n.Pos(), n.Values[i]})
			}
		}
	}
	return true
}

// called is what a name is defined as last before its use; nil: nothing.
func (l *literals) called(id *ast.Ident) (is ast.Expr) {
	for _, d := range l.names {
		if d.name == id.Name && (is == nil || d.at < id.Pos()) {
			is = d.is
		}
	}
	return is
}

// nameOf is the last part of a type's name.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// objects are those of a literal, and whether it is one of objects.
func (l *literals) objects(n ast.Node) (out []string, is bool) {
	lit, ok := n.(*ast.CompositeLit)
	if !ok {
		return nil, false
	}
	one, of := []ast.Expr{lit}, lit.Type
	if list, ok := of.(*ast.ArrayType); ok {
		one, of = lit.Elts, list.Elt
	}
	qualified, ok := of.(*ast.SelectorExpr) // MetalLB has types of its own, with the same names, for what it makes of them
	if !ok {
		return nil, false
	}
	kind := qualified.Sel.Name
	known, ok := literalKinds[kind]
	if !ok {
		return nil, false
	}
	for _, e := range one {
		v := reflect.New(known.of).Elem()
		if !l.read(e, v) {
			l.unknown = append(l.unknown, kind)
			continue
		}
		text, err := sigsyaml.Marshal(v.Interface())
		if err != nil {
			panic(err) // they are Kubernetes' own types
		}
		out = append(out, fmt.Sprintf("apiVersion: %s\nkind: %s\n%s", known.apiVersion, kind, text))
	}
	return out, true
}

// read gives a value what an expression says; false: it is not understood.
func (l *literals) read(e ast.Expr, to reflect.Value) bool {
	if to.Kind() == reflect.Pointer {
		if id, ok := e.(*ast.Ident); ok && id.Name == "nil" {
			return true
		}
		if call, ok := e.(*ast.CallExpr); ok && len(call.Args) == 1 { // ptr.To, or one like it
			e = call.Args[0]
		}
		to.Set(reflect.New(to.Type().Elem()))
		return l.read(e, to.Elem())
	}
	switch e := e.(type) {
	case *ast.ParenExpr:
		return l.read(e.X, to)
	case *ast.UnaryExpr:
		return e.Op == token.AND && l.read(e.X, to)
	case *ast.CompositeLit:
		return l.readLiteral(e, to)
	case *ast.CallExpr: // a conversion
		return len(e.Args) == 1 && slices.Contains([]string{"string", "uint32", "uint8", "uint16", "int"}, nameOf(e.Fun)) && l.read(e.Args[0], to)
	case *ast.Ident:
		if is := l.called(e); is != nil {
			return l.read(is, to)
		}
	}
	switch v := l.constant(e).(type) {
	case string:
		if to.Kind() == reflect.String {
			to.SetString(v)
			return true
		}
	case int64:
		switch {
		case to.CanInt():
			to.SetInt(v)
			return true
		case to.CanUint():
			to.SetUint(uint64(v))
			return true
		}
	case bool:
		if to.Kind() == reflect.Bool {
			to.SetBool(v)
			return true
		}
	}
	return false
}

// readLiteral gives a struct, a list or a map what a literal has in it.
func (l *literals) readLiteral(e *ast.CompositeLit, to reflect.Value) bool {
	for i, item := range e.Elts {
		pair, keyed := item.(*ast.KeyValueExpr)
		switch to.Kind() {
		case reflect.Struct:
			if !keyed || !to.FieldByName(nameOf(pair.Key)).IsValid() || !l.read(pair.Value, to.FieldByName(nameOf(pair.Key))) {
				return false
			}
		case reflect.Slice:
			to.Set(reflect.Append(to, reflect.Zero(to.Type().Elem())))
			if keyed || !l.read(item, to.Index(i)) {
				return false
			}
		case reflect.Map:
			if to.IsNil() {
				to.Set(reflect.MakeMap(to.Type()))
			}
			key, value := reflect.New(to.Type().Key()).Elem(), reflect.New(to.Type().Elem()).Elem()
			if !keyed || !l.read(pair.Key, key) || !l.read(pair.Value, value) {
				return false
			}
			to.SetMapIndex(key, value)
		default:
			return false
		}
	}
	return true
}

// constant is a string, an int64 or a bool; nil: it is none of these.
func (l *literals) constant(e ast.Expr) any {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return text
		}
		if n, err := strconv.ParseInt(e.Value, 0, 64); err == nil {
			return n
		}
	case *ast.Ident:
		if e.Name == "true" || e.Name == "false" {
			return e.Name == "true"
		}
		if is := l.called(e); is != nil {
			return l.constant(is)
		}
	case *ast.SelectorExpr:
		if d, ok := literalConstants[e.Sel.Name].(time.Duration); ok {
			return int64(d)
		}
		return literalConstants[e.Sel.Name]
	case *ast.BinaryExpr:
		switch a := l.constant(e.X).(type) {
		case string:
			if b, ok := l.constant(e.Y).(string); ok && e.Op == token.ADD {
				return a + b
			}
		case int64:
			if b, ok := l.constant(e.Y).(int64); ok && e.Op == token.MUL {
				return a * b
			}
		}
	}
	return nil
}

// TestObjectsThatStandInGoAreRead reads one with a field of each sort.
func TestObjectsThatStandInGoAreRead(t *testing.T) {
	docs, unknown := literalsIn(t, "x_test.go", []byte(`package x
var name = "a" + "b"
var _ = ClusterResources{Peers: []v1beta2.BGPPeer{{ObjectMeta: v1.ObjectMeta{Name: name}, Spec: v1beta2.BGPPeerSpec{
	MyASN: 1, HoldTime: ptr.To(v1.Duration{Duration: 90 * time.Second}), NodeSelectors: []v1.LabelSelector{{MatchLabels: map[string]string{"k": "v"}}}}}}}
var _ = v1beta1.IPAddressPool{Spec: f()}
`))
	if len(docs) != 1 || len(unknown) != 1 {
		t.Fatalf("%d documents, not understood: %v", len(docs), unknown)
	}
	var got v1beta2.BGPPeer
	if err := sigsyaml.Unmarshal(docs[0].Data, &got); err != nil {
		t.Fatal(err)
	}
	want := v1beta2.BGPPeerSpec{MyASN: 1, HoldTime: &metav1.Duration{Duration: 90 * time.Second}, NodeSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"k": "v"}}}}
	if !reflect.DeepEqual(got.Spec, want) || got.Name != "ab" || got.Kind != "BGPPeer" {
		t.Errorf("%s", docs[0].Data)
	}
}
