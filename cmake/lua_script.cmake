# sluice_lua_script(<out> <prelude> <driver> <module>...)
#
# Composes one Redis script out of Lua files and writes it, with its SHA-1, as a C++ source <out>.
# The prelude comes first, the driver last. In between, every module becomes a function in the local
# list `modules`, in the order given, for the driver to call, so a script run only pays for the
# modules it uses. The SHA-1 is that of the exact bytes, the one Redis reports.
function(sluice_lua_script out prelude driver)
  file(READ ${prelude} text)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${prelude})
  string(APPEND text "local modules = {\n")
  foreach(module IN LISTS ARGN)
    file(READ ${module} body)
    string(APPEND text "function()\n${body}end,\n")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${module})
  endforeach()
  string(APPEND text "}\n")
  file(READ ${driver} body)
  string(APPEND text "${body}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${driver})
  string(SHA1 sha1 "${text}")
  file(CONFIGURE OUTPUT ${out} @ONLY CONTENT [==[
// Generated from scripts/lua; do not edit.
#include "store/redis/script.h"

namespace sluice::redis {

const Script kCheckScript{
    .text = R"lua(@text@)lua",
    .sha1 = "@sha1@",
};

}  // namespace sluice::redis
]==])
endfunction()
