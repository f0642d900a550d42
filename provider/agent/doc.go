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
// How data moves from the API server to a plan, and back; each name with a dot is of a room below:
//
//	API server            watches of their own
//	   |                        |
//	   v                        v
//	watch.Sources.Snapshot -> plan.Inputs --------+-> routing.Planner ---+
//	 (or what is missing)         ^               |                      v
//	                              |               +-> advertise.Planner -> plan.Plan
//	disk.Dir.Load -> restored ----+                                      |
//	proxy.Health, proxy.Gate, drain, maintenance -+                      |
//	                                              apply: routeTable, speaker, link.Links
//	                                                                     |
//	disk.Saver   report.Writer -> Node's condition   report.Board <------+ reached
//
// All between inputs and reached is one pass. It reads the world by what was handed to
// it alone, and touches it by a [bgp.Speaker] and a [kernel.Table], of which it uses two methods each.
// A router that lost its session comes back in as an input: the next plan passes it by.
//
// The rooms: package plan has the values, and what is planned of them; offers joins Services to what there is to
// announce; watch, disk, proxy, link and report each hide what they are named after, and guard what goroutines of
// theirs share. What an Agent holds itself is in parts.go; [Agent] says what of it is for one goroutine alone.
//
// The API server is asked for no more than this:
//
//	""                  nodes         list, watch   its own by name; those of its rack by label; in overlay all; those that a pool has addresses of, by label
//	""                  nodes/status  patch         the condition plinth.dev/FabricReady of its own Node
//	""                  services      list, watch   with the field selector spec.type=LoadBalancer
//	""                  configmaps    list, watch   plinth-accepted and the slice of its rack that it lists, by name, in Plinth's namespace
//	""                  secrets       list, watch   those that the inventory takes passwords from, by name, in Plinth's namespace
//	discovery.k8s.io    endpointslices  list, watch
//	networking.k8s.io   ipaddresses     list, watch   labelled ipaddress.kubernetes.io/managed-by=plinth.dev
package agent
