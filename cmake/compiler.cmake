# Language standard, warnings, sanitizers and ccache for all targets of the project.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

# Warnings are a separate target, so that generated code can be compiled without them.
add_library(sluice_warnings INTERFACE)
target_compile_options(sluice_warnings INTERFACE
  -Wall -Wextra -Wno-missing-field-initializers -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wimplicit-fallthrough
  # GCC 12 warns of overlaps in `"text" + std::string`, although there are none (GCC bug 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  # Warns if annotated data is accessed without its mutex (src/base/mutex.h).
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>
  $<$<BOOL:${SLUICE_WERROR}>:-Werror>)

# In a unity build, one file includes many others. Compilers would then warn if a name in one file
# shadows a name in another, and of types in the unnamed namespaces of included files.
target_compile_options(sluice_warnings INTERFACE
  "$<$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>:-Wno-shadow;$<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>>")

# A fused multiply-add would give results that differ from Lua's in Redis.
add_compile_options(-ffp-contract=off)

# Hardening makes memory errors harder to exploit. It adds canaries before return addresses,
# checks buffer sizes in calls of libc, and makes tables of function addresses read-only before
# main. The distribution's compilers make executables position-independent.
if(NOT SLUICE_SANITIZE)
  add_compile_options(-fstack-protector-strong
                      "$<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>")
  add_link_options(-Wl,-z,relro,-z,now)
endif()

if(SLUICE_SANITIZE)
  add_compile_definitions(SLUICE_SANITIZED)
  add_compile_options(-fsanitize=${SLUICE_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  if(SLUICE_SANITIZE MATCHES "undefined")
    # These checks would double the compile time, and AddressSanitizer finds most errors that they
    # would find.
    add_compile_options(-fno-sanitize=null,alignment,object-size,vptr)
  endif()
  add_link_options(-fsanitize=${SLUICE_SANITIZE})
endif()

# sluice_library(<name> <sources>...): a library of src/ with the project's warnings.
function(sluice_library name)
  add_library(${name} STATIC ${ARGN})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE sluice_warnings)
endfunction()

# sluice_test(<name> <sources>...): a GoogleTest program and its CTest entry.
function(sluice_test name)
  add_executable(${name} ${ARGN})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE sluice_warnings GTest::gtest GTest::gmock
                        GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
endfunction()
