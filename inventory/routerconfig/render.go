package routerconfig

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"plinth.dev/plinth/inventory"
)

// Options say what to print.
type Options struct {
	// Standalone prints a whole configuration where the language has more to a
	// router than BGP: router ID, interfaces, and export to the kernel. Without it
	// the text is one part of the router's own configuration.
	Standalone bool
	// Dynamic lets in every address of a rack's subnets that knows the terms, in the
	// place of one neighbour a machine, so that a machine that joins changes nothing
	// at the router. For languages that have a statement for it.
	Dynamic bool
	// Passwords are the sessions' passwords (RFC 2385). In the place of one that is
	// not here, a comment says what is missing.
	Passwords map[inventory.SecretKey]string
}

// The errors of Render.
var (
	ErrNoRouter = errors.New("no such router")
	ErrNoOS     = errors.New("no such router language")
	ErrCannot   = errors.New("it cannot be written")
)

// dialect writes a router's side in one language.
type dialect struct {
	name    string
	comment string // what begins one
	untried bool   // no parser of it has read what we write
	ranges  bool   // it has a statement for neighbours of a range
	write   func(*page, *side, Options)
}

// dialects maps each of [inventory.Languages] to the way in which it is written.
var dialects = map[string]dialect{
	"frr":      {name: "FRR 8 and later", comment: "! ", ranges: true, write: writeFRR},
	"bird":     {name: "BIRD 2", comment: "# ", ranges: true, write: writeBIRD},
	"openbgpd": {name: "OpenBGPD 7", comment: "# ", write: writeOpenBGPD},
	"unifi":    {name: "UniFi gateways", comment: "! ", untried: true, write: writeUniFi},
	"vyos":     {name: "VyOS 1.4", comment: "# ", untried: true, write: writeVyOS},
	"eos":      {name: "Arista EOS", comment: "! ", untried: true, write: writeEOS},
	"junos":    {name: "Junos", comment: "# ", untried: true, write: writeJunos},
	"nvue":     {name: "Cumulus Linux 5", comment: "# ", untried: true, write: writeNVUE},
	"routeros": {name: "RouterOS 7", comment: "# ", untried: true, write: writeRouterOS},
	"opnsense": {name: "OPNsense with os-frr", comment: "", untried: true, write: writeOPNsense},
}

// Render writes the router's side of every session that machines of the
// inventory have with it. An empty language means the router's own, from the
// inventory. The same inventory gives the same bytes.
func Render(inv *inventory.Inventory, router, language string, options Options) ([]byte, error) {
	of, ok := inv.Router(router)
	if !ok {
		return nil, fmt.Errorf("%w: %q; the inventory has %s", ErrNoRouter, router, list(routerNames(inv)))
	}
	if language == "" {
		language = of.OS
	}
	dialect, ok := dialects[language]
	if !ok {
		return nil, fmt.Errorf("%w: %q; there are %s", ErrNoOS, language, list(inventory.Languages()))
	}
	for _, a := range of.Addresses {
		if a.Zone() != "" {
			return nil, fmt.Errorf("%w: router %s has the link-local address %v, and the inventory knows neither the router's ports nor the link-local addresses of machines; docs/guides/routers.md has what to write by hand",
				ErrCannot, of.Name, a)
		}
	}
	side := newSide(inv, of)
	if options.Dynamic {
		if err := side.dynamic(dialect); err != nil {
			return nil, err
		}
	}
	if dialect.untried {
		side.note("Not tried on a device: read it before you load it, and tell us how it went.")
	}
	for _, group := range side.groups {
		// A feature that only one end knows would keep the session down without an error.
		if what := inventory.Lacks(language, group.terms); what != "" {
			return nil, fmt.Errorf("%w: %s cannot do %s; change it for router %s in the inventory", ErrCannot, dialect.name, what, of.Name)
		}
		if word, ok := options.password(group); ok {
			if err := checkPassword(word); err != nil {
				return nil, fmt.Errorf("password %s of Secret %s: %w", group.terms.Password.Key, group.terms.Password.Secret, err)
			}
		}
		if group.needsPassword(options) {
			side.note("The key %s of the Secret %s holds a password: put it in where this text says so, or the sessions stay down.",
				group.terms.Password.Key, group.terms.Password.Secret)
		}
	}
	body := &page{comment: dialect.comment}
	dialect.write(body, side, options)
	return append(header(dialect, side, body.Bytes()), body.Bytes()...), nil
}

// header returns the comment that names the source of the text. Its sum changes when, and only when,
// the router's configuration has to change.
func header(d dialect, s *side, body []byte) []byte {
	top := &page{comment: d.comment}
	top.remark("%s: the router's side of the inventory %s, for %s.", s.router.Name, s.inventory, d.name)
	top.remark("Written by plinth router-config: change the inventory, not this text.")
	top.remark("sha256 %.12x", sha256.Sum256(body))
	for _, n := range s.notes {
		top.remark("NOTE: %s", n)
	}
	top.line("")
	return top.Bytes()
}

// password returns the password of the sessions, if they have one and it is at hand.
func (o Options) password(g *group) (string, bool) {
	word, known := o.Passwords[g.terms.Password]
	return word, known && g.terms.Password != inventory.SecretKey{}
}

// needsPassword reports whether the sessions have a password that is not at hand.
func (g *group) needsPassword(o Options) bool {
	_, known := o.password(g)
	return g.terms.Password != inventory.SecretKey{} && !known
}

// checkPassword refuses what some router would read as something else.
func checkPassword(password string) error {
	switch {
	case password == "":
		return errors.New("is empty")
	case len(password) > 80:
		return errors.New("is longer than 80 bytes, which is all that TCP takes")
	case strings.ContainsFunc(password, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\"'\\?$", r) }):
		return errors.New(`has a character that routers read in different ways: use letters, digits and no space, quote, "\", "?" or "$"`)
	}
	return nil
}

func (s *side) note(format string, args ...any) {
	if n := fmt.Sprintf(format, args...); !slices.Contains(s.notes, n) {
		s.notes = append(s.notes, n)
	}
}

func routerNames(inv *inventory.Inventory) []string {
	names := make([]string, len(inv.Routers))
	for i, r := range inv.Routers {
		names[i] = r.Name
	}
	return names
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// page is a text in the making.
type page struct {
	bytes.Buffer
	comment string
}

// text writes lines as they stand in the source; the break before the first is not theirs.
func (p *page) text(format string, args ...any) {
	p.WriteString(strings.TrimPrefix(fmt.Sprintf(format, args...), "\n"))
}

// line writes a line; trailing space is cut.
func (p *page) line(format string, args ...any) {
	p.WriteString(strings.TrimRight(fmt.Sprintf(format, args...), " ") + "\n")
}

// remark writes a comment.
func (p *page) remark(format string, args ...any) { p.line(p.comment+format, args...) }

// password writes the line with a group's password, or one that says which is missing. Each
// has one place for it.
func (p *page) password(g *group, o Options, known, missing string) {
	if word, ok := o.password(g); ok {
		p.line(known, word)
	} else if g.needsPassword(o) {
		p.line(missing, fmt.Sprintf("key %s of Secret %s", g.terms.Password.Key, g.terms.Password.Secret))
	}
}
