#include "store/stranger.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <random>

#include "support/raw_server.h"

namespace lockstep::test {

UniqueFd stranger_says(std::uint16_t port, const std::string& words) {
  auto connection = connect_to(port);
  EXPECT_TRUE(connection);
  if (!words.empty()) ::send(connection.get(), words.data(), words.size(), MSG_NOSIGNAL);
  return connection;
}

std::string hear_until_end(const UniqueFd& connection) {
  std::string heard;
  while (true) {
    pollfd ready{connection.get(), POLLIN, 0};
    if (::poll(&ready, 1, 60'000) != 1) {
      ADD_FAILURE() << "the connection does not end";
      return heard;
    }
    std::array<char, 4096> buffer{};
    const auto count = ::recv(connection.get(), buffer.data(), buffer.size(), 0);
    if (count <= 0) return heard;
    heard.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

std::vector<std::string> first_words_of_strangers() {
  std::mt19937 random(7);
  std::string noise(5000, '\0');
  for (char& byte : noise) byte = static_cast<char>(random());
  return {std::string(1, '\0'),
          "\x04",
          "LOCKSTEP STO",
          std::string("\x00\x01\x00\x00\x00\x00\x00\x00\x00k", 10),
          "GET / HTTP/1.1\r\nHost: here\r\n\r\n",
          "SSH-2.0-OpenSSH_9.2\r\n",
          std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11),
          std::string(8, '\xff'),
          noise};
}

}  // namespace lockstep::test
