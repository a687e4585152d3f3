# `cpack`: builds a package for Debian 12 from the preset `package`.
set(CPACK_GENERATOR DEB)
# If you distribute the package, set your own contact: -DCPACK_PACKAGE_CONTACT=…
set(CPACK_PACKAGE_CONTACT "The Sluice authors <sluice@example.org>" CACHE STRING
    "maintainer of the package, with an e-mail address")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "distributed rate limiter, decided in Redis")
set(CPACK_PACKAGE_DESCRIPTION
"Sluice answers one question for a fleet of services: may this request go on?
Rules are YAML files, counters live in Redis, decisions are atomic. This
package has the server, its systemd service and the command-line tool.")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "adduser")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "procps")  # ExecReload calls /bin/kill
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "redis-server")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
    ${PROJECT_SOURCE_DIR}/cmake/debian/conffiles
    ${PROJECT_SOURCE_DIR}/cmake/debian/postinst
    ${PROJECT_SOURCE_DIR}/cmake/debian/prerm
    ${PROJECT_SOURCE_DIR}/cmake/debian/postrm)
set(CPACK_ERROR_ON_ABSOLUTE_INSTALL_DESTINATION OFF)
set(CPACK_SET_DESTDIR ON)  # /etc is not below /usr
set(CPACK_INSTALL_PREFIX /usr)
include(CPack)

# Debian requires a changelog in its own format in every package.
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)
set(changelog ${CMAKE_CURRENT_BINARY_DIR}/installed/changelog)
file(WRITE ${changelog}
     "sluice (${PROJECT_VERSION}) bookworm; urgency=medium\n\n"
     "  * What has changed: /usr/share/doc/sluice/CHANGELOG.md.gz\n\n"
     " -- ${CPACK_PACKAGE_CONTACT}  ${now}\n")
configure_file(CHANGELOG.md installed/CHANGELOG.md COPYONLY)
execute_process(COMMAND gzip --force --no-name --best ${changelog} installed/CHANGELOG.md
                WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR} COMMAND_ERROR_IS_FATAL ANY)
install(FILES ${changelog}.gz ${CMAKE_CURRENT_BINARY_DIR}/installed/CHANGELOG.md.gz
        DESTINATION ${CMAKE_INSTALL_DOCDIR})
