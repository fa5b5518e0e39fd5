// The page of a job as one HTML file that fetches nothing: its parts are embedded in the program.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::dashboard {

/// The files in page/, as the build embeds them (cmake/EmbedPage.cmake writes the definitions).
extern const std::string_view kPageHtml;
extern const std::string_view kPageStyle;
extern const std::string_view kPageScript;

/// The page that connects to the server it came from.
std::string live_page();

/// The page of a job that has ended, whose data (ended_json) is in the file. It opens no connection.
std::string page_of_ended_job(std::string_view data);

/// The value of Content-Security-Policy for the live page: its own style and script by their hashes, a connection to
/// its server, and nothing else.
std::string content_security_policy();

}  // namespace lockstep::dashboard
