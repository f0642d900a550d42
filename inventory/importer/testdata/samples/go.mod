// What is read as samples alone, by tests with the tag samples: no program of Plinth's has it.
module plinth.dev/plinth/inventory/importer/testdata/samples

go 1.26

require (
	github.com/cilium/cilium v1.20.2
	github.com/kube-vip/kube-vip v1.2.2
	github.com/kube-vip/kube-vip-cloud-provider v0.0.12
)
