# sluice_lua_script(<out> FIRST <file>... ALGORITHMS <file>... LAST <file>...)
#
# Composes one Redis script from Lua files and writes it, with its SHA-1, as a C++ source <out>.
# Between the FIRST and the LAST files, the script defines the function `algorithm`: algorithm(n)
# returns the value of the nth algorithm file, so a run only executes the files it uses. The SHA-1
# is that of the exact bytes, as Redis reports it.
function(sluice_lua_script out)
  cmake_parse_arguments(PARSE_ARGV 1 lua "" "" "FIRST;ALGORITHMS;LAST")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
               ${lua_FIRST} ${lua_ALGORITHMS} ${lua_LAST})
  set(text "")
  set(names "")
  foreach(file IN LISTS lua_FIRST)
    file(READ ${file} body)
    string(APPEND text "${body}\n")
  endforeach()
  string(APPEND text "local function algorithm(id)\n")
  set(id 0)
  set(if "if")
  foreach(file IN LISTS lua_ALGORITHMS)
    math(EXPR id "${id} + 1")
    get_filename_component(name ${file} NAME_WE)
    string(APPEND names "\"${name}\", ")
    file(READ ${file} body)
    string(APPEND text "${if} id == ${id} then\n${body}")
    set(if "elseif")
  endforeach()
  string(APPEND text "end\nend\n\n")
  foreach(file IN LISTS lua_LAST)
    file(READ ${file} body)
    string(APPEND text "${body}\n")
  endforeach()
  string(SHA1 sha1 "${text}")
  file(CONFIGURE OUTPUT ${out} @ONLY CONTENT [==[
// Generated from scripts/lua; do not edit.
#include "store/redis/script.h"

#include <array>

namespace sluice::redis {
namespace {

constexpr std::array kAlgorithms = std::to_array<std::string_view>({@names@});

}  // namespace

const Script kCheckScript{
    .text = R"lua(@text@)lua",
    .sha1 = "@sha1@",
    .algorithms = kAlgorithms,
};

}  // namespace sluice::redis
]==])
endfunction()
