# Language level, warnings, sanitizers and ccache: everything that holds for all our targets.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

# Generated code links this too, so warnings are a target of their own: sluice_warnings.
add_library(sluice_warnings INTERFACE)
target_compile_options(sluice_warnings INTERFACE
  -Wall -Wextra -Wno-missing-field-initializers -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wimplicit-fallthrough
  # GCC 12 sees overlaps in `"text" + std::string` where there are none (its bug 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  $<$<BOOL:${SLUICE_WERROR}>:-Werror>)

# Where a multiplication and an addition become one, results differ from Lua's in Redis.
add_compile_options(-ffp-contract=off)

if(SLUICE_SANITIZE)
  add_compile_options(-fsanitize=${SLUICE_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${SLUICE_SANITIZE})
endif()
if(SLUICE_SANITIZE MATCHES "thread")
  # ThreadSanitizer knows no fences. Asio's are not needed where its mutexes are seen.
  add_compile_definitions(BOOST_ASIO_DISABLE_FENCED_BLOCK)
endif()

# sluice_library(<name> <sources>...): one library of src/, with our warnings and include root.
function(sluice_library name)
  add_library(${name} STATIC ${ARGN})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE sluice_warnings)
endfunction()

# sluice_test(<name> <sources>...): one GoogleTest program, one CTest entry.
function(sluice_test name)
  add_executable(${name} ${ARGN})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE sluice_warnings GTest::gtest GTest::gmock
                        GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
endfunction()
