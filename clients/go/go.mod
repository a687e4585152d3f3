// The module's path until a home is chosen. client.go and the example import the generated package by it.
module example.com/sluice/client

go 1.19

require (
	google.golang.org/grpc v1.33.3
	google.golang.org/protobuf v1.28.1
)
