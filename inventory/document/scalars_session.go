package document

import (
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"plinth.dev/plinth/inventory"
)

// refusePassword reads no password.
func refusePassword(d *decoder, n *yaml.Node) (string, bool) {
	d.refuse(n, refusal{code: inventory.InlinePassword, message: "a password must not stand in the inventory", value: inventory.NotShown,
		accepted: "a Secret in Plinth's namespace", suggestion: "passwordFrom: {secret: bgp, key: password}", elsewhere: true})
	return "", false
}

// readBFD reads the name of a profile, or off, which is what somebody means who writes false.
func readBFD(decoder *decoder, node *yaml.Node) (string, bool) {
	if node.Kind == yaml.ScalarNode && node.Tag == "!!bool" {
		r := refusal{code: inventory.WrongType, message: "is a truth value to YAML", accepted: "the name of a profile in spec.bfdProfiles, or off"}
		if strings.EqualFold(node.Value, "false") {
			r.suggestion = "off"
		}
		decoder.refuse(node, r)
		return "", false
	}
	return checked(name)(decoder, node)
}

// readHoldTime reads the hold time of a session (RFC 4271, section 4.2). Zero,
// which would never notice a dead neighbour, is refused.
func readHoldTime(decoder *decoder, node *yaml.Node) (time.Duration, bool) {
	duration, ok := between(0, 65535*time.Second)(decoder, node)
	switch {
	case !ok:
		return 0, false
	case duration < 3*time.Second:
		decoder.refuse(node, refusal{code: inventory.ShortHoldTime, message: "is too short", accepted: "3s to 65535s", suggestion: "3s"})
		return 0, false
	}
	return duration, decoder.wholeSeconds(node, duration)
}

// readRestartTime reads the restart time of graceful restart (RFC 4724, section 3).
func readRestartTime(d *decoder, n *yaml.Node) (time.Duration, bool) {
	v, ok := between(time.Second, 4095*time.Second)(d, n)
	return v, ok && d.wholeSeconds(n, v)
}

// wholeSeconds refuses what the protocol cannot say.
func (d *decoder) wholeSeconds(n *yaml.Node, v time.Duration) bool {
	if v%time.Second == 0 {
		return true
	}
	d.refuse(n, refusal{code: inventory.BadDuration, message: "is not in whole seconds, which is all that BGP can say", accepted: "whole seconds",
		suggestion: ShortDuration(v.Round(time.Second))})
	return false
}

// readGracefulRestart reads off, or a mapping with the restart time.
func readGracefulRestart(decoder *decoder, node *yaml.Node) (time.Duration, bool) {
	if node.Kind == yaml.ScalarNode && node.Value == "off" {
		return 0, true
	}
	if node.Kind != yaml.MappingNode {
		decoder.refuse(node, refusal{code: inventory.UnknownWord, message: "is not a setting of graceful restart", accepted: "off, or {restartTime: 60s}",
			suggestion: gracefulMeant(node.Value)})
		return 0, false
	}
	var g rawGracefulRestart
	object(decoder, node, &g)
	return g.RestartTime.or(inventory.DefaultRestartTime), true
}

// gracefulMeant guesses at a short form.
func gracefulMeant(text string) string {
	switch strings.ToLower(text) {
	case "false", "no", "none", "disabled", "never", "0", "0s":
		return "off"
	case "true", "yes", "on":
		return "{restartTime: 60s}"
	}
	if fixed := durationMeant(text); fixed != "" {
		return "{restartTime: " + fixed + "}"
	}
	return ""
}
