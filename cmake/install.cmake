# What `cmake --install` installs: programs, manuals and completion (made from the programs'
# `--help`), settings, example rules, the systemd unit, the API.
include(GNUInstallDirs)
find_package(Python3 REQUIRED COMPONENTS Interpreter)

set(manuals ${CMAKE_CURRENT_BINARY_DIR}/manuals)
add_custom_command(
  OUTPUT ${manuals}/sluice.1.gz ${manuals}/sluiced.8.gz ${manuals}/sluice ${manuals}/sluiced
  COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/manuals.py
          $<TARGET_FILE:sluice> $<TARGET_FILE:sluiced> ${manuals}
  COMMAND gzip --force --no-name --best ${manuals}/sluice.1 ${manuals}/sluiced.8
  DEPENDS sluice sluiced scripts/manuals.py
  VERBATIM)
add_custom_target(sluice_manuals ALL DEPENDS ${manuals}/sluice.1.gz)

# The folder of the installed settings and rules. The unit and the settings name it. If
# CMAKE_INSTALL_SYSCONFDIR is relative and the prefix is /usr, the folder is in /etc. With any other
# prefix, it is below the prefix, even for /opt/NAME, where GNUInstallDirs would use /etc/opt.
if(IS_ABSOLUTE "${CMAKE_INSTALL_SYSCONFDIR}")
  set(etc ${CMAKE_INSTALL_SYSCONFDIR}/sluice)
elseif(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  set(etc /${CMAKE_INSTALL_SYSCONFDIR}/sluice)
else()
  set(etc ${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_SYSCONFDIR}/sluice)
endif()
set(share ${CMAKE_INSTALL_DATADIR}/sluice)

# The unit hides home directories, unless sluiced is installed in one.
set(protect_home yes)
if(CMAKE_INSTALL_PREFIX MATCHES "^/(home|root)(/|$)")
  set(protect_home read-only)
endif()

# The settings of the service: the example file, with the path of the installed rules.
file(READ config/sluice.yaml settings)
string(REPLACE "# rules: /etc/sluice/rules" "rules: ${etc}/rules"
       service_settings "${settings}")
if(service_settings STREQUAL settings)
  message(FATAL_ERROR "config/sluice.yaml no longer has the line `# rules: /etc/sluice/rules`")
endif()
file(CONFIGURE OUTPUT installed/sluice.yaml CONTENT "${service_settings}" @ONLY)
configure_file(cmake/sluiced.service.in installed/sluiced.service @ONLY)

install(TARGETS sluiced sluice DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/installed/sluice.yaml DESTINATION ${etc})
install(FILES config/rules/shop.yaml DESTINATION ${etc}/rules)
install(FILES config/rules.schema.json DESTINATION ${share})
install(FILES proto/sluice/v1/rate_limiter.proto proto/sluice/v1/admin.proto
        DESTINATION ${share}/proto/sluice/v1)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/installed/sluiced.service
        DESTINATION lib/systemd/system)
install(FILES ${manuals}/sluice.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${manuals}/sluiced.8.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man8)
install(FILES ${manuals}/sluice ${manuals}/sluiced
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES cmake/debian/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR})
