// Package cassettes tests the model adapters against recorded real traffic of many providers. It is
// a module of its own, so that what it needs stays out of the program's module. The recordings are
// part of another project's module (Apache-2.0), fetched by `go mod download` and never copied here.
package cassettes
