//go:build samples

package importer

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// checkVariablesOfFlags holds kubeVIPFlags against the fields of kube-vip's configuration: a flag and its variable write the same one. The code of
// three files tells: which field a flag is bound to, the names of variables, and which fields each of these writes.
func checkVariablesOfFlags(t *testing.T, flags, names, environment string) {
	t.Helper()
	bound, writes := fieldsOfFlags(t, flags), fieldsOfVariables(t, stringConstants(t, names), environment)
	checked := 0
	for name, flag := range kubeVIPFlags {
		field, ok := bound[name]
		switch {
		case !ok:
			t.Errorf("--%s is bound to nothing", name)
		case flag.variable == "" || flag.variable == peersByFlag || flag.variable == addressByFlag || field == "configMap": // the command looks that one up itself
		case name == "debounceTime": // its variable has a name, and nothing reads it
		case !slices.Contains(writes[flag.variable], field):
			t.Errorf("--%s writes %s, and %s writes %v", name, field, flag.variable, writes[flag.variable])
		default:
			checked++
		}
	}
	if checked < 70 {
		t.Errorf("%d flags were checked", checked)
	}
	if !slices.Contains(writes["bgp_peeraddress"], "BGPConfig.Peers") || slices.Contains([]string{bound["peerAddress"], bound["bgppeers"]}, "BGPConfig.Peers") {
		t.Errorf("sessions are made otherwise: bgp_peeraddress writes %v, --peerAddress %s", writes["bgp_peeraddress"], bound["peerAddress"])
	}
}

// fileOf parses Go.
func fileOf(t *testing.T, source string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// fieldOf is the path of a field below a variable: B.C of a.B.C; empty: it is none. A variable alone is its own name.
func fieldOf(e ast.Expr) string {
	var parts []string
	for {
		switch x := e.(type) {
		case *ast.SelectorExpr:
			parts, e = append(parts, x.Sel.Name), x.X
		case *ast.Ident:
			if slices.Reverse(parts); len(parts) == 0 {
				return x.Name
			}
			return strings.Join(parts, ".")
		default:
			return ""
		}
	}
}

// fieldsOfFlags are what flags are bound to, by the name and the letter of each.
func fieldsOfFlags(t *testing.T, source string) map[string]string {
	bound := map[string]string{}
	ast.Inspect(fileOf(t, source), func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) < 3 {
			return true
		}
		fun, ok := call.Fun.(*ast.SelectorExpr)
		to, isTo := call.Args[0].(*ast.UnaryExpr)
		if !ok || !isTo || !strings.HasSuffix(fun.Sel.Name, "Var") && !strings.HasSuffix(fun.Sel.Name, "VarP") {
			return true
		}
		names := call.Args[1:2]
		if strings.HasSuffix(fun.Sel.Name, "VarP") {
			names = call.Args[1:3]
		}
		for _, name := range names {
			if text, err := strconv.Unquote(name.(*ast.BasicLit).Value); err == nil {
				bound[text] = fieldOf(to.X)
			}
		}
		return true
	})
	return bound
}

// stringConstants are those of a file, by name.
func stringConstants(t *testing.T, source string) map[string]string {
	all := map[string]string{}
	ast.Inspect(fileOf(t, source), func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			for i, value := range spec.Values {
				if lit, ok := value.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					all[spec.Names[i].Name], _ = strconv.Unquote(lit.Value)
				}
			}
		}
		return true
	})
	return all
}

// fieldsOfVariables are the fields that are written after a variable was looked up, and before the next one is, by the variable's name in small letters.
func fieldsOfVariables(t *testing.T, constants map[string]string, source string) map[string][]string {
	writes, current := map[string][]string{}, ""
	ast.Inspect(fileOf(t, source), func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.FuncDecl:
			current = ""
		case *ast.CallExpr:
			if fun, ok := x.Fun.(*ast.SelectorExpr); !ok || fun.Sel.Name != "Getenv" && fun.Sel.Name != "LookupEnv" {
				break
			}
			if name, ok := x.Args[0].(*ast.Ident); ok {
				current = strings.ToLower(constants[name.Name])
			}
		case *ast.AssignStmt:
			for _, to := range x.Lhs {
				if _, ok := to.(*ast.SelectorExpr); ok {
					writes[current] = append(writes[current], fieldOf(to))
				}
			}
		}
		return true
	})
	return writes
}
