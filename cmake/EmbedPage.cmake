# cmake -D FOLDER=lockstep/dashboard/page -D OUT=page_parts.cpp -P EmbedPage.cmake: the files of the page of a job as C++ texts
# (lockstep/dashboard/page.h).
set(text "// Written by cmake/EmbedPage.cmake from the files in lockstep/dashboard/page.\n#include <lockstep/dashboard/page.h>\n\nnamespace lockstep::dashboard {\n")
foreach(part Html:html Style:css Script:js)
  string(REPLACE ":" ";" part "${part}")
  list(GET part 0 name)
  list(GET part 1 ending)
  file(READ "${FOLDER}/dashboard.${ending}" content)
  if(content MATCHES "\\)embedded\"")
    message(FATAL_ERROR "dashboard.${ending} has the end of a raw string literal: )embedded\"")
  endif()
  string(APPEND text "const std::string_view kPage${name} = R\"embedded(${content})embedded\";\n")
endforeach()
file(WRITE "${OUT}" "${text}}  // namespace lockstep::dashboard\n")
