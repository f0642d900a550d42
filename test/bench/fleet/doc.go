// Package fleet measures what the agents of a large datacenter cost the API server, beside kube-proxy's own watches in the
// same run, and what the controller manager costs there.
//
// etcd, kube-apiserver with its own limits, the controller manager and the objects are real: 5,000 Nodes of a kubelet's size in
// 100 racks, 10,000 Services, each with its VIP, and 40,000 endpoints. Kubelets are no more than their writes: at rest each
// writes the status of its Node every five minutes, which is what wakes watches of Nodes. Their leases, which no watcher here
// follows, are left out, as are all other programs of a cluster. Pod routes are of mode fabric; -mode=overlay, in which each agent
// follows all Nodes, is measured by hand.
//
// So many watchers as -watchers says run in one process, each with a client and connections of its own: agents as they are, but
// without routers, a kernel, links and a disk, or the informers of a kube-proxy v1.37.1 (provider/agent, build tag fleet).
// What agents of the other Nodes write at rest is written for them, since each write is held against all watches of Nodes. What
// they write at a start, their condition twice, is not: a start is that of so many agents as run.
//
// Contenders take turns, in another order each round. What the server spends in two turns of nobody, before and after them, is
// taken off theirs. A watch of Services or endpoints is measured as it is after its first five to ten minutes: a kube-proxy's
// first watch alone is compressed, which costs the server more and carries less.
//
// The figures of the whole fleet are those of one watcher times the number of Nodes. The server's work is linear in watchers:
// an event is read from etcd and encoded once for all who watch, and then held against the selector, copied and encrypted for each;
// a list is encoded and compressed for each, and so is each event of a watch that is compressed. What is not linear is on neither
// side of a comparison: queues of a server that is full, which come sooner.
//
// All share this machine's processors, the watchers too: seconds are those of so many watchers on so many processors. Processor
// times are the API server's own. Each measurement begins right after a collection of the server's garbage. Whether another one falls into it is
// chance, so that what is not more than one is no figure.
package fleet
