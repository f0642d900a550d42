// Package agent turns, on each node, what the API server says into a plan of
// announcements and routes, and has it applied.
//
// One goroutine plans and applies; watching, saving, reporting and BGP sessions have
// their own. An event only marks the state as dirty, then a snapshot is taken,
// planned, applied and reported. Bursts coalesce, a failure is tried again soon, a
// quiet time still ends in a full pass. What was last known
// stays in force while the API server is away, and is on disk for the process that
// follows this one.
//
// The API server is asked for no more than this:
//
//	""                  nodes         list, watch   its own by name; those of its rack by label; in overlay all
//	""                  nodes/status  patch         the condition plinth.dev/FabricReady of its own Node
//	""                  services      list, watch   with the field selector spec.type=LoadBalancer
//	""                  configmaps    list, watch   plinth-accepted and the slice of its rack that it lists, by name, in Plinth's namespace
//	""                  secrets       list, watch   those that the inventory takes passwords from, by name, in Plinth's namespace
//	discovery.k8s.io    endpointslices  list, watch
//	networking.k8s.io   ipaddresses     list, watch   labelled ipaddress.kubernetes.io/managed-by=plinth.dev
package agent
