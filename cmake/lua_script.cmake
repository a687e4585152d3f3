# sluice_lua_script(<out> <folder>): composes the Redis script from the Lua files in <folder>, and
# writes it as a C++ source <out>. See lua_script.py.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(SLUICE_LUA_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/lua_script.py)
function(sluice_lua_script out folder)
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*.lua ${folder}/algorithm/*.lua)
  add_custom_command(
    OUTPUT ${out}
    COMMAND ${Python3_EXECUTABLE} ${SLUICE_LUA_SCRIPT} ${out} ${folder}
    DEPENDS ${SLUICE_LUA_SCRIPT} ${files}
    VERBATIM)
endfunction()
