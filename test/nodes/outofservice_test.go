package nodes

import (
	"testing"

	"plinth.dev/plinth/test/apiserver"
)

const (
	outOfService = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
	shutDown     = "node.cloudprovider.kubernetes.io/shutdown:NoSchedule"
)

func (c *cluster) taint(args ...string) {
	c.t.Helper()
	c.Kubectl(append([]string{"taint", "nodes", "w2"}, args...)...)
}

// TestMachineThatIsOffLeadsToItsVolumesAndBack follows the messages from the power cut on.
func TestMachineThatIsOffLeadsToItsVolumesAndBack(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	c.start()
	c.edit(zoned("a", "active"))
	c.register(node{name: "w2"})
	c.until("w2", "is initialised", apiserver.Initialised)
	c.patch("w2", "status", `{"status":{"volumesAttached":[{"name":"kubernetes.io/csi/disks.example.com^disk","devicePath":""}]}}`)

	t.Log("somebody taints it before the inventory says that it is off")
	c.ready("w2", false)
	c.taint(outOfService)
	c.event("Node", "w2", "NotKnownToBeOff", "state: off")
	c.taint(outOfService + "-")

	c.edit(zoned("a", "off"))
	c.until("w2", "has the shutdown taint", has(shutDown))
	c.event("Node", "w2", "VolumesStayAttached", "(volumes: 1)")
	c.event("Node", "w2", "VolumesStayAttached", "kubectl taint nodes w2 "+outOfService)
	c.taint(outOfService)

	t.Log("it is back, and the inventory still says off")
	c.ready("w2", true)
	c.event("Node", "w2", "StillOff", "state: active")
	c.edit(zoned("a", "active"))
	c.event("Node", "w2", "StillOutOfService", "kubectl taint nodes w2 node.kubernetes.io/out-of-service-")
	c.taint(outOfService + "-")
	c.until("w2", "has none of the two taints", hasNot(outOfService))
	c.until("w2", "has none of the two taints", hasNot(shutDown))
}
