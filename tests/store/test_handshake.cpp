// Who may speak: the first words of a connection.
#include <lockstep/base/error.h>
#include <lockstep/store/client.h>
#include <lockstep/store/protocol.h>
#include <lockstep/store/server.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>

#include "store/stranger.h"
#include "support/raw_server.h"

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

store::Time in(std::chrono::milliseconds limit) { return std::chrono::steady_clock::now() + limit; }

store::StoreServerOptions with_secret(const std::string& secret) {
  store::StoreServerOptions options;
  options.addresses = {"127.0.0.1"};
  options.secret = secret;
  return options;
}

Error error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another exception: " << error.what();
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorKind::invalid_argument, "", "");
}

Error error_of_client(std::uint16_t port, const std::string& secret) {
  return error_of([&] { store::Client("127.0.0.1", port, {secret}, in(30s)); });
}

TEST(Handshake, BothSidesProveTheSecret) {
  const store::Nonces nonces{"c", "s"};
  const auto proof = store::print_proof_of_client("open sesame", nonces);
  EXPECT_TRUE(store::is_proof_of_client(proof, "open sesame", nonces));
  EXPECT_FALSE(store::is_proof_of_client(proof, "open barley", nonces));
  EXPECT_FALSE(store::is_proof_of_client(proof, "open sesame", {"c", "other"}));
  EXPECT_FALSE(store::is_proof_of_client(proof, "open sesame", {"other", "s"}));
  const auto verdict = store::print_verdict("open sesame", nonces);
  EXPECT_EQ(store::read_verdict(verdict, "open sesame", nonces), store::Verdict::welcome);
  EXPECT_EQ(store::read_verdict(verdict, "open barley", nonces), store::Verdict::other_secret);
  // The server's proof is another than the client's: it cannot send back what it was sent.
  EXPECT_EQ(store::read_verdict("ok " + proof, "open sesame", nonces), store::Verdict::other_secret);
  EXPECT_EQ(store::read_verdict(store::print_verdict(std::nullopt, nonces), "open sesame", nonces),
            store::Verdict::refused);
  EXPECT_EQ(store::read_verdict("ok", "open sesame", nonces), store::Verdict::nonsense);
}

TEST(Handshake, WhoDoesNotKnowTheSecretIsRefused) {
  const store::Server server(with_secret("open sesame"));
  const store::Client member("127.0.0.1", server.port(), {"open sesame"}, in(30s));
  for (const auto* secret : {"", "open barley"}) {
    const auto error = error_of_client(server.port(), secret);
    EXPECT_EQ(error.kind(), ErrorKind::environment);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("secret"), HasSubstr("LOCKSTEP_STORE_SECRET")));
  }
  const store::Server open(with_secret(""));
  EXPECT_THAT(error_of_client(open.port(), "open sesame").what(), HasSubstr("requires none"));
}

TEST(Handshake, TheSecretDoesNotTravel) {
  std::string heard;
  RawServer server([&](int connection) {
    heard += read_some(connection);
    write_all(connection,
              store::print_challenge({store::Challenge::Wants::secret, std::string(store::kNonceBytes, '0')}));
    heard += read_some(connection);
    write_all(connection, "ok " + std::string(store::kProofBytes, '0') + "\r\n");
    read_some(connection);
  });
  const auto error = error_of_client(server.port(), "open sesame");
  EXPECT_THAT(error.what(), HasSubstr("does not have the secret"));
  EXPECT_EQ(heard.size(), store::kHelloBytes + store::kProofMessageBytes);
  EXPECT_EQ(heard.find("sesame"), std::string::npos);
}

TEST(Handshake, OtherProgramsAreNamed) {
  const auto answered = [](const std::string& words) {
    RawServer server([&](int connection) {
      read_some(connection);
      write_all(connection, words);
      stay_silent(connection);
    });
    return error_of_client(server.port(), "");
  };
  auto error = answered("HTTP/1.1 400 Bad Request\r\n\r\n");
  EXPECT_EQ(error.kind(), ErrorKind::io);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("not a store"), HasSubstr("HTTP/1.1 400"), HasSubstr("MASTER_PORT")));
  error = answered("LOCKSTEP STORE 3\r\n and more");
  EXPECT_EQ(error.kind(), ErrorKind::mismatch);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("version"), HasSubstr("LOCKSTEP STORE 3"), HasSubstr("LOCKSTEP STORE 2")));
}

TEST(Handshake, WhoSaysNothingOrEndsIsNoStore) {
  RawServer silent(stay_silent);
  try {
    const store::Client client("127.0.0.1", silent.port(), {}, in(50ms));
    ADD_FAILURE() << "no error";
  } catch (const store::Unreachable& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("not a store"), HasSubstr("rank 0 or a launcher")));
  }
  RawServer ends([](int connection) { read_some(connection); });
  EXPECT_THROW(store::Client("127.0.0.1", ends.port(), {}, in(30s)), store::NoWord);
  EXPECT_THROW(store::Client("127.0.0.1", 1, {}, in(30s)), store::Unreachable);
}

TEST(Handshake, AnotherVersionIsToldOurs) {
  const store::Server server(with_secret(""));
  const auto connection = stranger_says(server.port(), "LOCKSTEP STORE 3\r\n");
  EXPECT_EQ(hear_until_end(connection), store::kGreeting);
}

}  // namespace
}  // namespace lockstep::test
