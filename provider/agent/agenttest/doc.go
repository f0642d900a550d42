// Package agenttest has the inputs that tests of an agent plan with; no program imports it.
package agenttest
