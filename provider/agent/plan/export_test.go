package plan

// What tests outside the package look at.
var (
	MayLeave = mayLeave
	RouterID = routerID
	OwnCIDRs = ownCIDRs
)
