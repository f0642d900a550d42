package source

import "strings"

// Advice describes the remedy where the accepted inventory cannot be read, with a command that begins anew if
// nothing else helps.
func Advice(namespace string) string {
	return "agents keep what they have. The controller stores it anew once the inventory has no errors. If nothing else helps, begin anew, without machines that are held: " +
		strings.Join(BeginAnew(namespace), " ")
}

// BeginAnew is the command that deletes what was accepted.
func BeginAnew(namespace string) []string {
	return []string{"kubectl", "-n", namespace, "delete", "configmap", "-l", LabelAccepted}
}
