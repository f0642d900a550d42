// Package inventorytest has inventories for tests: four that are written out, and those that laws draw.
package inventorytest
