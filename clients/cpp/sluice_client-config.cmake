include(CMakeFindDependencyMacro)
find_dependency(Protobuf)
find_dependency(gRPC CONFIG)
include(${CMAKE_CURRENT_LIST_DIR}/sluice_client-targets.cmake)
