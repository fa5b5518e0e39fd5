// Waiting for a program that is being loaded, which may write meanwhile.
#pragma once

#include <lockstep/base/unique_fd.h>

#include <string>

namespace lockstep::cluster {

/// Reads both streams (closed ones are left out) into the texts behind them until `awaited` is readable, and what is in
/// them then; closes them. False when `stop_fd` (-1: none) was readable before.
bool read_until_readable(UniqueFd& out, std::string& out_text, UniqueFd& err, std::string& err_text, int awaited,
                         int stop_fd);

}  // namespace lockstep::cluster
