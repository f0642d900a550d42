package document

import (
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"plinth.dev/plinth/inventory"
)

// text reads text as it is.
func text(decoder *decoder, node *yaml.Node) (string, bool) {
	if node.Kind == yaml.ScalarNode {
		switch node.Tag {
		case "!!str":
			return node.Value, true
		case "!!int", "!!float", "!!bool", "!!timestamp":
			decoder.refuse(node, refusal{code: inventory.WrongType, message: "is " + kindOf(node) + " to YAML, where text is wanted",
				accepted: "text; put it in quotes", suggestion: strconv.Quote(node.Value)})
			return "", false
		}
	}
	decoder.wrongType(node, "text")
	return "", false
}

// checked reads text of a certain form.
func checked[T any](parse func(string) (T, *refusal)) func(*decoder, *yaml.Node) (T, bool) {
	return func(dec *decoder, node *yaml.Node) (T, bool) {
		s, ok := text(dec, node)
		if !ok {
			var none T
			return none, false
		}
		v, ref := parse(s)
		if ref != nil {
			dec.refuse(node, *ref)
		}
		return v, ref == nil
	}
}

// Readers of values that have a form.
var (
	readAddress  = checked(readAddr)
	readCIDR     = checked(readPrefix)
	readDuration = checked(parseDuration)

	readReservation = checked(reservation)
	readCommunity   = checked(community)
)

// word reads one of a few words.
func word[T ~string](words ...T) func(*decoder, *yaml.Node) (T, bool) {
	names := converted(words, func(w T) string { return string(w) })
	return checked(func(text string) (T, *refusal) {
		for _, w := range words {
			if string(w) == text {
				return w, nil
			}
		}
		return "", &refusal{code: inventory.UnknownWord, message: "is none of the words that can stand here",
			accepted: strings.Join(names, ", "), suggestion: wordMeant(text, names)}
	})
}

// synonyms are words that people bring along from elsewhere.
var synonyms = map[string]string{
	"vxlan": "overlay", "geneve": "overlay", "tunnel": "overlay", "bgp": "fabric", "routed": "fabric", "native": "direct", "l2": "direct",
	"enabled": "active", "on": "active", "up": "active", "running": "active", "cordoned": "maintenance", "drained": "maintenance",
	"false": "off", "no": "off", "down": "off", "shutdown": "off", "stopped": "off", "decommissioned": "retired", "removed": "retired", "deleted": "retired",
	"new": "planned", "spare": "planned", "withdrawn": "disabled", "all": "default",
	"arp": "link", "layer2": "link", "ndp": "link", "l3": "bgp",
	"arista": "eos", "cumulus": "nvue", "frrouting": "frr", "juniper": "junos", "mikrotik": "routeros", "openbsd": "openbgpd",
	"pfsense": "frr", "quagga": "frr", "sonic": "frr", "ubiquiti": "unifi",
}

// wordMeant returns a word that means the same, or one that is spelt alike.
func wordMeant(s string, words []string) string {
	if same := synonyms[strings.ToLower(s)]; slices.Contains(words, same) {
		return same
	}
	return Nearest(s, words)
}

// truth reads true or false.
func truth(decoder *decoder, node *yaml.Node) (bool, bool) {
	if node.Kind == yaml.ScalarNode && node.Tag == "!!bool" {
		return strings.EqualFold(node.Value, "true"), true
	}
	refused := refusal{code: inventory.WrongType, message: "is not a truth value", accepted: "true or false"}
	switch strings.ToLower(node.Value) {
	case "yes", "on", "y", "1", "true":
		refused.suggestion = "true"
	case "no", "off", "n", "0", "false":
		refused.suggestion = "false"
	}
	decoder.refuse(node, refused)
	return false, false
}

// number reads an integer between two bounds, both included.
func number(low, high int) func(*decoder, *yaml.Node) (int, bool) {
	accepted := "a number from " + strconv.Itoa(low) + " to " + strconv.Itoa(high)
	return func(dec *decoder, node *yaml.Node) (int, bool) {
		if node.Kind != yaml.ScalarNode || node.Tag != "!!int" {
			r := refusal{code: inventory.WrongType, message: "is not a whole number", accepted: accepted}
			if _, plain := plainNumber(node.Value); plain {
				r.suggestion = node.Value + withoutQuotes
			}
			dec.refuse(node, r)
			return 0, false
		}
		value, plain := plainNumber(node.Value)
		if !plain {
			dec.refuse(node, refusal{code: inventory.WrongType, message: "is a number that not all readers of YAML read alike", accepted: accepted + ", in decimal digits alone",
				suggestion: inDigits(node.Value)})
			return 0, false
		}
		if value < low || value > high {
			dec.refuse(node, refusal{code: inventory.OutOfRange, message: "is out of range", accepted: accepted, suggestion: strconv.Itoa(min(max(value, low), high))})
			return 0, false
		}
		return value, true
	}
}

// plainNumber reads decimal digits, with a minus sign at most: what every version of YAML takes for the same number. One that is larger
// than all that a field takes is the largest there is.
func plainNumber(s string) (int, bool) {
	abs, negative := strings.CutPrefix(s, "-")
	n, ok := inventory.ParseDigits(abs, 64)
	v := int(min(n, math.MaxInt))
	if negative {
		v = -v
	}
	return v, ok
}

// inDigits is a number in decimal digits that was written in another way: 16 for 0x10, 100 for 1_00. Empty: what was meant
// cannot be known, as of 010, which is 8 to YAML 1.1 and 10 to YAML 1.2.
func inDigits(s string) string {
	text := strings.TrimPrefix(strings.ToLower(s), "+")
	unsigned := strings.TrimPrefix(text, "-")
	if n, err := strconv.ParseInt(text, 0, 64); err == nil && (!strings.HasPrefix(unsigned, "0") || len(unsigned) > 2 && strings.ContainsRune("xob", rune(unsigned[1]))) {
		return strconv.FormatInt(n, 10)
	}
	return ""
}

// readASN reads an AS number: an integer, or asdot in quotes.
func readASN(decoder *decoder, node *yaml.Node) (inventory.ASN, bool) {
	const accepted = `1 to 4294967294, or asdot in quotes such as "65010.10"`
	if node.Kind != yaml.ScalarNode || node.Tag == "!!null" {
		decoder.wrongType(node, "an AS number")
		return 0, false
	}
	if node.Tag == "!!float" && strings.Contains(node.Value, ".") {
		decoder.refuse(node, refusal{code: inventory.FloatASN, message: "is a number with a point to YAML, which may drop its last zeros",
			accepted: accepted, suggestion: strconv.Quote(node.Value)})
		return 0, false
	}
	asn, err := inventory.ParseASN(node.Value)
	if err != nil {
		refused := refusal{code: inventory.BadASN, message: err.Error(), accepted: accepted}
		if rest, ok := strings.CutPrefix(strings.ToUpper(node.Value), "AS"); ok {
			refused.suggestion = rest
		} else if node.Value == "0" {
			refused.suggestion = "64512"
		} else if node.Tag == "!!int" {
			refused.suggestion = inDigits(node.Value)
		}
		decoder.refuse(node, refused)
	}
	return asn, err == nil
}

// readLimit reads a number, or a percentage.
func readLimit(decoder *decoder, node *yaml.Node) (inventory.Limit, bool) {
	limit, err := inventory.ParseLimit(node.Value)
	if node.Kind != yaml.ScalarNode || err != nil {
		r := refusal{code: inventory.BadLimit, message: "is not a limit", accepted: "a number, or a percentage from 0% to 100%"}
		if f, err := strconv.ParseFloat(node.Value, 64); err == nil && f > 0 && f < 1 {
			r.suggestion = strconv.Itoa(int(f*100)) + "%"
		}
		decoder.refuse(node, r)
		return inventory.Limit{}, false
	}
	return limit, true
}

// parseDuration reads a time with its unit.
func parseDuration(text string) (time.Duration, *refusal) {
	const accepted = "a number with its unit, such as 100ms, 9s or 2m"
	duration, err := time.ParseDuration(text)
	if err != nil || duration < 0 {
		return 0, &refusal{code: inventory.BadDuration, message: "is not a time", accepted: accepted, suggestion: durationMeant(text)}
	}
	if plain := zerosBefore.ReplaceAllString(text, "$1$2"); plain != text {
		return 0, &refusal{code: inventory.BadDuration, message: "is a number that not all programs read alike", accepted: accepted + ", without zeros before it", suggestion: plain}
	}
	return duration, nil
}

// zerosBefore finds zeros before a number of a time.
var zerosBefore = regexp.MustCompile(`(^|[^0-9.])0+([0-9])`)

// durationMeant drops blanks and long units.
func durationMeant(text string) string {
	text = strings.NewReplacer(" ", "", "seconds", "s", "second", "s", "secs", "s", "sec", "s", "minutes", "m", "minute", "m", "min", "m", "msec", "ms").Replace(text)
	if _, err := strconv.Atoi(text); err == nil {
		text += "s"
	}
	if v, err := time.ParseDuration(text); err != nil || v < 0 {
		return ""
	}
	return text
}

// between reads a time between two bounds, both included.
func between(low, high time.Duration) func(*decoder, *yaml.Node) (time.Duration, bool) {
	return func(dec *decoder, node *yaml.Node) (time.Duration, bool) {
		if node.Tag == "!!int" {
			refused := refusal{code: inventory.BadDuration, message: "has no unit", accepted: "a number with its unit, such as 100ms, 9s or 2m"}
			if _, plain := plainNumber(node.Value); plain {
				refused.suggestion = node.Value + "s"
			} else if decimal := inDigits(node.Value); decimal != "" {
				refused.suggestion = decimal + "s"
			}
			dec.refuse(node, refused)
			return 0, false
		}
		duration, ok := readDuration(dec, node)
		if ok && (duration < low || duration > high) {
			dec.refuse(node, refusal{code: inventory.OutOfRange, message: "is out of range", accepted: ShortDuration(low) + " to " + ShortDuration(high),
				suggestion: ShortDuration(min(max(duration, low), high))})
			return 0, false
		}
		return duration, ok
	}
}

// readAddr reads an address without zone, and no IPv4 address in IPv6 form.
func readAddr(text string) (netip.Addr, *refusal) {
	const accepted = "an IPv4 or IPv6 address without a prefix length"
	addr, err := netip.ParseAddr(text)
	switch {
	case err != nil:
		refused := &refusal{code: inventory.BadAddress, message: "is not an address", accepted: accepted}
		if p, err := netip.ParsePrefix(text); err == nil {
			refused.suggestion = p.Addr().String()
		} else if fixed := withoutLeadingZeros(text); fixed != text {
			refused.suggestion = fixed
		}
		return netip.Addr{}, refused
	case addr.Zone() != "":
		return netip.Addr{}, &refusal{code: inventory.BadAddress, message: "has a zone", accepted: accepted, suggestion: addr.WithZone("").String()}
	case addr.Is4In6():
		return netip.Addr{}, &refusal{code: inventory.BadAddress, message: "is an IPv4 address in IPv6 form", accepted: accepted, suggestion: addr.Unmap().String()}
	}
	return addr, nil
}

// readRouterAddr reads an address of a router, which may be a link-local one with the
// machine's interface that leads to it.
func readRouterAddr(text string) (netip.Addr, *refusal) {
	addr, err := netip.ParseAddr(text)
	if err != nil || !addr.Is6() || !addr.IsLinkLocalUnicast() {
		return readAddr(text)
	}
	if addr.Zone() == "" {
		return netip.Addr{}, &refusal{code: inventory.BadAddress, message: "is a link-local address without the interface that leads to it",
			accepted: "the address, %, and the name that the machines' interface has", suggestion: text + "%eth0"}
	}
	return addr, nil
}

// withoutLeadingZeros repairs 10.001.02.3, if that makes it an address.
func withoutLeadingZeros(text string) string {
	parts := strings.Split(text, ".")
	for i, p := range parts {
		if n, err := strconv.Atoi(p); err == nil && n >= 0 {
			parts[i] = strconv.Itoa(n)
		}
	}
	fixed := strings.Join(parts, ".")
	if _, err := netip.ParseAddr(fixed); err != nil {
		return text
	}
	return fixed
}

// readPrefix reads a prefix with no host bits.
func readPrefix(text string) (netip.Prefix, *refusal) {
	prefix, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		refused := &refusal{code: inventory.BadPrefix, message: "is not a prefix", accepted: "address/length, such as 10.10.1.0/26 or 2001:db8::/64"}
		if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
			refused.suggestion = netip.PrefixFrom(a, a.BitLen()).String()
		} else if addr, length, ok := strings.Cut(text, "/"); ok {
			if n, err := strconv.Atoi(length); err == nil {
				refused.suggestion = withoutLeadingZeros(addr) + "/" + strconv.Itoa(n)
			}
		}
		return netip.Prefix{}, refused
	case prefix.Addr().Is4In6():
		return netip.Prefix{}, &refusal{code: inventory.BadPrefix, message: "is an IPv4 prefix in IPv6 form", accepted: "the prefix in its own form"}
	case prefix.Masked() != prefix:
		return netip.Prefix{}, &refusal{code: inventory.HostBits, message: "has host bits set", accepted: "the first address of the prefix",
			suggestion: prefix.Masked().String()}
	}
	return prefix, nil
}
