// Waiting for a program that is being loaded, and collecting its output meanwhile.
#pragma once

#include <lockstep/base/unique_fd.h>

#include <string>

namespace lockstep::cluster {

/// Reads both streams (closed ones are skipped) into the texts that follow them until `awaited` is readable, then what
/// they still hold; closes them. False when `stop_fd` (-1: none) was readable before.
bool read_until_readable(UniqueFd& out, std::string& out_text, UniqueFd& err, std::string& err_text, int awaited,
                         int stop_fd);

}  // namespace lockstep::cluster
