// Connections to a store by somebody who is no member of its job.
#pragma once

#include <lockstep/base/unique_fd.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::test {

/// Connects to 127.0.0.1:port and says `words`, if any; the connection stays open.
UniqueFd stranger_says(std::uint16_t port, const std::string& words);

/// What the other side says until it ends the connection. Fails the test when it does not end it within a minute.
std::string hear_until_end(const UniqueFd& connection);

/// What strangers say first: one byte, half a greeting, requests of c10d, of a browser, of ssh and of TLS, a huge
/// length, random bytes.
std::vector<std::string> first_words_of_strangers();

}  // namespace lockstep::test
