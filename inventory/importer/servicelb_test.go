package importer

import (
	"strings"
	"testing"

	"plinth.dev/plinth/inventory/document"
)

func TestWithoutNodesNobodyKnowsWhoseAddressesServicesHave(t *testing.T) {
	service := `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: [{ip: 192.0.2.1}]}}}`
	options, doc := Options{Sources: []string{"servicelb"}}, document.Document{Source: "a", Data: []byte(service)}
	if _, notes := Import(options, doc); len(notes) != 1 || !strings.Contains(notes[0].Message, "give the Nodes") {
		t.Error(notes)
	}
	checkLaw(t, options, doc)
}
