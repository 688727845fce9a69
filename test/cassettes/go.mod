module github.com/rivumi/rivumi/test/cassettes

go 1.26.7

require (
	github.com/rivumi/rivumi v0.0.0
	go.yaml.in/yaml/v3 v3.0.6
)

replace github.com/rivumi/rivumi => ../..
