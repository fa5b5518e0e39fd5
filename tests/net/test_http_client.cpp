// The HTTP client with servers that answer well, badly, too much or never.
#include <lockstep/base/text.h>
#include <lockstep/net/http_client.h>
#include <lockstep/net/tls_contexts.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <mutex>

#include "base/expect_error.h"
#include "support/raw_server.h"

namespace lockstep::net {
namespace {

using namespace std::chrono_literals;
using test::expect_error;
using test::RawServer;
using test::write_all;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr std::size_t kLongestBody = 100;

auto soon() { return std::chrono::steady_clock::now() + 60s; }

HttpClient client_of(const RawServer& server) { return {{"127.0.0.1", server.port()}, nullptr, kLongestBody}; }

/// One request with its body; empty at the end of the connection.
std::string read_request(int connection) {
  const std::string field = "Content-Length: ";
  std::string text;
  while (true) {
    const auto end = text.find("\r\n\r\n");
    if (end != std::string::npos) {
      const auto at = text.find(field);
      const auto length =
          at == std::string::npos ? "0" : text.substr(at + field.size(), text.find('\r', at) - at - field.size());
      if (text.size() == end + 4 + static_cast<std::size_t>(parse_integer(length).value())) return text;
    }
    const std::string more = test::read_some(connection);
    if (more.empty()) return "";
    text += more;
  }
}

std::string http(const std::string& body, const std::string& fields = "") {
  return fmt::format("HTTP/1.1 200 OK\r\n{}Content-Length: {}\r\n\r\n{}", fields, body.size(), body);
}

/// Answers each request with the same bytes, in one segment.
std::function<void(int)> answers(const std::string& answer) {
  return [answer](int connection) {
    while (!read_request(connection).empty() && write_all(connection, answer)) {
    }
  };
}

/// An answer that is an error of this kind, with these words.
void refuse(const std::string& answer, ErrorKind kind, const std::string& words) {
  const RawServer server([answer](int connection) {
    read_request(connection);
    write_all(connection, answer);
  });
  HttpClient client = client_of(server);
  expect_error(kind, {words}, [&] { client.post("/", "{}", soon()); });
}

TEST(HttpClient, SendsWhatAServerNeeds) {
  std::mutex mutex;
  std::vector<std::string> requests;
  const RawServer server([&](int connection) {
    for (std::string request; !(request = read_request(connection)).empty(); write_all(connection, http("fine"))) {
      const std::lock_guard lock(mutex);
      requests.push_back(request);
    }
  });
  HttpClient client = client_of(server);
  const auto answer = client.post("/v3/kv/range", R"({"key":1})", soon());
  EXPECT_EQ(answer.status, 200U);
  EXPECT_EQ(answer.body, "fine");
  client.get("/v1/status", soon());
  const auto host = HasSubstr(fmt::format("\r\nHost: 127.0.0.1:{}\r\n", server.port()));
  const std::lock_guard lock(mutex);
  EXPECT_THAT(requests,
              ElementsAre(AllOf(StartsWith("POST /v3/kv/range HTTP/1.1\r\n"), host,
                                HasSubstr("\r\nContent-Type: application/json\r\n"), HasSubstr("\r\n\r\n{\"key\":1}")),
                          AllOf(StartsWith("GET /v1/status HTTP/1.1\r\n"), host)));
}

TEST(HttpClient, StatusIsTheCallersMatter) {
  const RawServer server(
      answers("HTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"));
  const auto answer = client_of(server).post("/", "", soon());
  EXPECT_EQ(answer.status, 503U);
  EXPECT_EQ(answer.body, "abcde");
}

TEST(HttpClient, FieldsOfARequestAndWhenToComeAgain) {
  std::string request;
  std::mutex mutex;
  const RawServer server([&](int connection) {
    const std::lock_guard lock(mutex);
    request = read_request(connection);
    write_all(connection, "HTTP/1.1 429 Slow\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n");
  });
  const auto answer =
      client_of(server).send({"PATCH", "/a", "application/json", "{}", {{"Authorization", "Bearer x"}}}, soon());
  EXPECT_EQ(answer.status, 429U);
  EXPECT_EQ(answer.retry_after, 7s);
  const std::lock_guard lock(mutex);
  EXPECT_THAT(request, AllOf(StartsWith("PATCH /a HTTP/1.1\r\n"), HasSubstr("\r\nAuthorization: Bearer x\r\n")));
}

TEST(HttpClient, AnAnswerWithoutEndComesInPieces) {
  const RawServer server([](int connection) {
    read_request(connection);
    write_all(connection, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    test::stay_silent(connection);
  });
  HttpClient client = client_of(server);
  std::string text;
  const auto take = [&](std::string_view piece) {
    text += piece;
    client.cancel();  // or it would wait for more
  };
  EXPECT_THROW(client.stream({"GET", "/watch"}, soon(), take), Error);
  EXPECT_EQ(text, "abc");
  expect_error(ErrorKind::io, {"it was cancelled"}, [&] { client.get("/", soon()); });
}

TEST(HttpClient, APiecewiseAnswerMayBeLongButNoError) {
  const std::string body(kLongestBody + 1, 'x');
  const RawServer good(answers(http(body)));
  std::string text;
  const auto answer = client_of(good).stream({"GET", "/"}, soon(), [&](std::string_view piece) { text += piece; });
  EXPECT_EQ(text, body);
  EXPECT_TRUE(answer.keep_alive);
  const RawServer bad(answers(fmt::format("HTTP/1.1 410 Gone\r\nContent-Length: 4\r\n\r\nlate")));
  EXPECT_EQ(client_of(bad).stream({"GET", "/"}, soon(), [](std::string_view) { FAIL(); }).body, "late");
}

// ---- the connection

/// Posts three times; how many connections that took.
int connections_with(const std::string& answer) {
  std::atomic<int> connections = 0;
  const RawServer server([&](int connection) {
    ++connections;
    answers(answer)(connection);
  });
  HttpClient client = client_of(server);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.post("/", "{}", soon()).body, "fine");
  return connections;
}

TEST(HttpClient, KeepsTheConnectionWhereTheServerDoes) {
  EXPECT_EQ(connections_with(http("fine")), 1);
  EXPECT_EQ(connections_with(http("fine", "Connection: close\r\n")), 3);
}

TEST(HttpClient, BytesAfterAnAnswerAreNotTheNextAnswer) {
  EXPECT_EQ(connections_with(http("fine") + http("of nobody")), 3);
}

TEST(HttpClient, ConnectsAgainAfterAnError) {
  const RawServer server([](int connection) {  // one answer for each connection, without a word about that
    if (!read_request(connection).empty()) write_all(connection, http("fine"));
  });
  HttpClient client = client_of(server);
  EXPECT_EQ(client.post("/", "{}", soon()).body, "fine");
  expect_error(ErrorKind::io, {"it closed the connection while"}, [&] { client.post("/", "{}", soon()); });
  EXPECT_EQ(client.post("/", "{}", soon()).body, "fine");
}

TEST(HttpClient, NobodyListens) {
  HttpClient client({"127.0.0.1", RawServer(test::stay_silent).port()}, nullptr, kLongestBody);
  expect_error(ErrorKind::io, {"Connection refused while connecting"}, [&] { client.post("/", "{}", soon()); });
}

TEST(HttpClient, Ipv6) {
  using boost::asio::ip::tcp;
  boost::asio::io_context context;
  tcp::acceptor acceptor(context);
  boost::system::error_code no_ipv6;
  acceptor.open(tcp::v6(), no_ipv6);
  if (!no_ipv6) acceptor.bind({boost::asio::ip::address_v6::loopback(), 0}, no_ipv6);
  if (no_ipv6) GTEST_SKIP() << "this machine has no ::1: " << no_ipv6.message();
  acceptor.listen();
  std::string request;
  std::thread server([&] {
    tcp::socket connection = acceptor.accept();
    request = read_request(connection.native_handle());
    write_all(connection.native_handle(), http("fine"));
  });
  HttpClient client({"::1", acceptor.local_endpoint().port()}, nullptr, kLongestBody);
  EXPECT_EQ(client.post("/", "{}", soon()).body, "fine");
  server.join();
  EXPECT_EQ(client.server().text(), fmt::format("[::1]:{}", client.server().port));
  EXPECT_THAT(request, HasSubstr(fmt::format("Host: {}\r\n", client.server().text())));
}

// ---- limits

TEST(HttpClient, BodiesThatAreTooLong) {
  const std::string words = "the body of its answer is longer than 100 bytes";
  const std::string body(kLongestBody + 1, 'x');
  refuse("HTTP/1.1 200 OK\r\nContent-Length: 9999999999999\r\n\r\n", ErrorKind::data, words);
  refuse(http(body), ErrorKind::data, words);  // header and body in one segment
  refuse("HTTP/1.1 200 OK\r\nContent-Length: 9999999999999\r\n\r\n" + body, ErrorKind::data, words);
  refuse("HTTP/1.1 200 OK\r\n\r\n" + body, ErrorKind::data, words);
  refuse("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n" + body, ErrorKind::data, words);
  const RawServer server(answers(http(std::string(kLongestBody, 'x'))));
  EXPECT_EQ(client_of(server).post("/", "{}", soon()).body.size(), kLongestBody);
}

TEST(HttpClient, AHeaderThatIsTooLong) {
  refuse("HTTP/1.1 200 OK\r\nX: " + std::string(10'000, 'x') + "\r\n\r\n", ErrorKind::data,
         "the header of its answer is longer than 8192 bytes");
}

TEST(HttpClient, ALineWithoutEnd) {
  const RawServer server([](int connection) {
    write_all(connection, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    while (write_all(connection, std::string(1000, '0'))) {
    }
  });
  expect_error(ErrorKind::data, {"a line of its answer is too long"},
               [&] { client_of(server).post("/", "{}", soon()); });
}

TEST(HttpClient, NoHttp) {
  refuse("SSH-2.0-OpenSSH_9.2\r\n", ErrorKind::data, "it does not use HTTP: bad version");
  refuse("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", ErrorKind::data, "it does not use HTTP");
}

TEST(HttpClient, AnswersThatEndEarly) {
  for (const char* answer : {"", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"}) {
    refuse(answer, ErrorKind::io, "it closed the connection while waiting for the answer");
  }
}

TEST(HttpClient, TheDeadlineIsForAllStepsTogether) {
  const RawServer silent(test::stay_silent);
  expect_error(ErrorKind::timeout, {"no answer in time while waiting for the answer"},
               [&] { client_of(silent).post("/", "{}", std::chrono::steady_clock::now() + 300ms); });
  const RawServer slow([](int connection) {  // never silent for long
    write_all(connection, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n");
    for (int i = 0; i < 100 && write_all(connection, "x"); ++i) std::this_thread::sleep_for(20ms);
  });
  expect_error(ErrorKind::timeout, {"no answer in time while waiting for the answer"},
               [&] { client_of(slow).post("/", "{}", std::chrono::steady_clock::now() + 300ms); });
  HttpClient tls({"127.0.0.1", silent.port()}, make_client_tls({}), kLongestBody);
  expect_error(ErrorKind::timeout, {"no answer in time while opening the TLS session"},
               [&] { tls.post("/", "{}", std::chrono::steady_clock::now() + 300ms); });
}

// ---- TLS

/// What a server sees first of a client that wants TLS with `host`.
std::string first_bytes_for(const std::string& host) {
  std::mutex mutex;
  std::string hello;
  const RawServer server([&](int connection) {
    const std::lock_guard lock(mutex);
    hello = test::read_some(connection);
  });
  HttpClient client({host, server.port()}, make_client_tls({}), kLongestBody, {"the list", false});
  expect_error(ErrorKind::io,
               {"it closed the connection in the middle of the TLS handshake; check that TLS is on there"},
               [&] { client.post("/", "{}", soon()); });
  const std::lock_guard lock(mutex);
  return hello;
}

TEST(HttpClient, NamesTheServerButNoAddress) {
  EXPECT_THAT(first_bytes_for("localhost"), HasSubstr("localhost"));
  EXPECT_THAT(first_bytes_for("127.0.0.1"), AllOf(Not(HasSubstr("127.0.0.1")), StartsWith("\x16")));
}

TEST(HttpClient, AServerWithoutTls) {
  const RawServer server([](int connection) {
    test::read_some(connection);
    write_all(connection, "HTTP/1.1 400 Bad Request\r\n\r\n");
  });
  HttpClient client({"127.0.0.1", server.port()}, make_client_tls({}), kLongestBody);
  expect_error(ErrorKind::environment, {"TLS failed while opening the TLS session (it does not use TLS; "},
               [&] { client.post("/", "{}", soon()); });
}

TEST(HttpClient, FilesThatCannotBeUsed) {
  expect_error(ErrorKind::io, {"ca_cert", "/none.pem"}, [] { make_client_tls({"/none.pem", "", ""}); });
  expect_error(ErrorKind::io, {"ssl_cert", "/none.pem"}, [] { make_client_tls({"", "/none.pem", "/key.pem"}); });
}

}  // namespace
}  // namespace lockstep::net
