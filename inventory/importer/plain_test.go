package importer

import (
	"fmt"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory/document"
)

func TestWhatIsNotPlainYAML(t *testing.T) {
	const pool = "apiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata: {name: a}\n"
	const peer = "apiVersion: metallb.io/v1beta2\nkind: BGPPeer\nmetadata: {name: tor}\n"
	laugh := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		laugh += fmt.Sprintf("%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1)
	}
	for name, c := range map[string]struct{ text, want, never string }{
		"an alias":                    {pool + "spec: {addresses: [&one 192.0.2.0/28], x-same: *one}\n", "addresses: [192.0.2.0/28]", ""},
		"a merge key":                 {"x-all: &all {myASN: 65001, peerASN: 65101, holdTime: 12s}\n" + peer + "spec: {<<: *all, peerAddress: 10.0.0.1, holdTime: 9s}\n", "holdTime: 9s", "12s"},
		"an alias to another item":    {"apiVersion: v1\nkind: List\nitems:\n  - {apiVersion: metallb.io/v1beta1, kind: IPAddressPool, metadata: {name: a}, spec: &s {addresses: [192.0.2.0/28], autoAssign: false}}\n  - {apiVersion: metallb.io/v1beta1, kind: IPAddressPool, metadata: {name: b}, spec: *s}\n", "autoAssign: false", ""},
		"a key twice":                 {pool + "spec:\n  addresses: [192.0.2.0/28]\n  addresses: [192.0.2.16/28]\n", `doc:6:3: error[I0001]: the key "addresses" is there twice`, ""},
		"a million laughs":            {laugh, "too large", ""},
		"an alias to itself":          {"a: &a [*a]\n", "error[I0001]", ""},
		"a password that is an alias": {peer + "spec: {myASN: 65001, peerASN: 65101, peerAddress: 10.0.0.1, password: *hunter2}\n", "is not YAML", "hunter2"},
		"a password of another type":  {peer + "spec: {myASN: 65001, peerASN: 65101, peerAddress: 10.0.0.1, password: !!int hunter2}\n", "cannot be read", "hunter2"},
		"a password that is a list":   {peer + "spec: {myASN: 65001, peerASN: 65101, peerAddress: 10.0.0.1, password: [hunter2]}\n", "cannot be read", "hunter2"},
		"a password":                  {peer + "spec: {myASN: 65001, peerASN: 65101, peerAddress: 10.0.0.1, password: hunter2}\n", "I0007", "hunter2"},
		"nothing":                     {"", "error[I0001]: nothing is there to be read", ""},
		"an empty list":               {"apiVersion: v1\nkind: List\nitems: []\n", "name: imported", "I0001"},
		"a name of two lines":         {strings.Replace(pool, "name: a", `name: "a\n    - {name: b, addresses: [198.51.100.0/24]}"`, 1) + "spec: {addresses: [192.0.2.0/28]}\n", "# from IPAddressPool/a ", "\n    - {name: b"},
	} {
		t.Run(name, func(t *testing.T) {
			said := told(Import(Options{Sources: []string{"metallb"}}, document.Document{Source: "doc", Data: []byte(c.text)}))
			if !strings.Contains(said, c.want) || c.never != "" && strings.Contains(said, c.never) {
				t.Errorf("want %q, and never %q:\n%s", c.want, c.never, said)
			}
		})
	}
}
