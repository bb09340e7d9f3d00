# dure_page(TARGET PAGE): links the page of web/src/PAGE into the library TARGET, as the table that src/web/page_files.h
# declares. The page is built with npm when something needs it and its sources have changed, and not otherwise: whoever
# builds none of the programs that serve it needs no npm.
function(dure_page target page)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/web/src/*)
  set(folder ${CMAKE_BINARY_DIR}/web/${page})
  set(generated ${CMAKE_BINARY_DIR}/web/${page}_page.cc)
  add_custom_command(
    OUTPUT ${generated}
    COMMAND ${PROJECT_SOURCE_DIR}/tools/embed-page ${page} ${folder} ${generated}
    DEPENDS ${sources} ${PROJECT_SOURCE_DIR}/web/package.json ${PROJECT_SOURCE_DIR}/web/package-lock.json
            ${PROJECT_SOURCE_DIR}/web/pages.mjs ${PROJECT_SOURCE_DIR}/tools/embed-page
    COMMENT "Building the page ${page}"
    VERBATIM)
  target_sources(${target} PRIVATE ${generated})
endfunction()
