// A placeholder for the module's path. The imports in this folder use it, too.
module example.com/sluice/client

go 1.19

require (
	google.golang.org/grpc v1.33.3
	google.golang.org/protobuf v1.28.1
)
