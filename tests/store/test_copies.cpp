// Copies of a store over real sockets: leaders that end while clients write, and processes that come back.
#include <lockstep/base/log.h>
#include <lockstep/store/client.h>
#include <lockstep/store/replica_keeper.h>
#include <lockstep/store/server.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::store {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kLease = 2s;

/// What a launcher has of the store. Its destructor is the death of the process, as far as the others can see.
class Process {
 public:
  explicit Process(const std::optional<Address>& endpoint = {}, std::uint16_t port = 0)
      : replica_(std::make_shared<Replica>(kLease)) {
    StoreServerOptions options;
    options.addresses = {"127.0.0.1"};
    options.port = port;
    options.replica = replica_;
    server_ = std::make_unique<Server>(options);
    own_ = {"127.0.0.1", server_->port()};
    if (!endpoint) replica_->found(own_);
    keeper_ = std::make_unique<ReplicaKeeper>(replica_, KeeperOptions{own_, endpoint.value_or(own_)});
  }

  const Address& own() const { return own_; }
  Standing standing() const { return replica_->standing(Clock::now()); }
  std::size_t members() const { return standing().view.members.size(); }

 private:
  std::shared_ptr<Replica> replica_;
  std::unique_ptr<Server> server_;
  Address own_;
  std::unique_ptr<ReplicaKeeper> keeper_;
};

template <typename Condition>
[[nodiscard]] bool wait_until(const Condition& happens) {
  for (const auto deadline = Clock::now() + 60s; Clock::now() < deadline; std::this_thread::sleep_for(2ms)) {
    if (happens()) return true;
  }
  return false;
}

/// A client that asks one process after the other until one answers.
class Caller {
 public:
  Caller(std::vector<Address> addresses, std::string name) : addresses_(std::move(addresses)), name_(std::move(name)) {}

  std::string ask(Operation operation, const MessageWriter& fields) {
    for (const auto deadline = Clock::now() + 60s; Clock::now() < deadline; std::this_thread::sleep_for(1ms)) {
      try {
        const auto& [host, port] = addresses_[at_];
        if (!client_) client_ = std::make_unique<Client>(host, port, Credentials{}, Clock::now() + 1s);
        return client_->ask(operation, fields, Clock::now() + 1s);
      } catch (const std::exception&) {
        client_.reset();
        at_ = (at_ + 1) % addresses_.size();
      }
    }
    ADD_FAILURE() << "no answer within a minute";
    return MessageWriter().number(0).number(0).body();
  }

  std::uint64_t add(const std::string& key) {
    const auto operation = static_cast<std::uint64_t>(Operation::add);
    const auto answer =
        ask(Operation::once, MessageWriter().text(name_).number(++number_).number(operation).text(key).number(1));
    return MessageReader(answer).number();
  }

  std::string get(const std::string& key) {
    const auto answer = ask(Operation::look_up, MessageWriter().keys({key}));
    MessageReader reader(answer);
    return reader.number() == 0 ? "" : std::string(reader.text());
  }

 private:
  std::vector<Address> addresses_;
  std::string name_;
  std::size_t at_ = 0;
  std::uint64_t number_ = 0;
  std::unique_ptr<Client> client_;
};

/// Several processes, in the order of their arrival.
class Copies : public testing::Test {
 protected:
  void start(std::size_t count) {
    processes_.push_back(std::make_unique<Process>());
    for (std::size_t i = 1; i < count; ++i) {
      processes_.push_back(std::make_unique<Process>(processes_.front()->own()));
      ASSERT_TRUE(wait_until([&] { return processes_.back()->standing().joined; }));
    }
    ASSERT_TRUE(wait_until([&] { return processes_.back()->members() == count; }));
    for (const auto& process : processes_) addresses_.push_back(process->own());
  }
  std::unique_ptr<Process>& leader() {
    std::unique_ptr<Process>* found = nullptr;
    EXPECT_TRUE(wait_until([&] {
      for (auto& process : processes_) {
        if (process && process->standing().leads) found = &process;
      }
      return found != nullptr;
    }));
    return *found;
  }

  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<Address> addresses_;
};

class CopiesOf : public Copies, public testing::WithParamInterface<std::size_t> {};

// Nothing that was acknowledged is lost, and nothing is done twice: each sum is told once.
TEST_P(CopiesOf, EveryAdditionCountsOnceWhileLeadersEnd) {
  start(GetParam());
  constexpr int kClients = 4;
  std::mutex mutex;
  std::set<std::uint64_t> sums;
  std::atomic<bool> stop = false;
  std::atomic<std::uint64_t> added = 0;
  {
    std::vector<std::jthread> clients;
    for (int i = 0; i < kClients; ++i) {
      clients.emplace_back([&, i] {
        Caller caller(addresses_, "client " + std::to_string(i));
        while (!stop) {
          const auto sum = caller.add("sum");
          const std::lock_guard lock(mutex);
          EXPECT_TRUE(sums.insert(sum).second) << sum << " was told twice";
          ++added;
        }
      });
    }
    for (std::size_t left = GetParam(); left > 1; --left) {
      const auto before = added.load();
      EXPECT_TRUE(wait_until([&] { return added >= before + 100; })) << left;
      leader().reset();
    }
    const auto before = added.load();
    EXPECT_TRUE(wait_until([&] { return added >= before + 100; }));
    stop = true;
  }
  EXPECT_EQ(*sums.rbegin(), added.load());
  EXPECT_EQ(Caller(addresses_, "last").get("sum"), std::to_string(added));
}

INSTANTIATE_TEST_SUITE_P(Processes, CopiesOf, testing::Values(2U, 3U, 5U));

TEST_F(Copies, MembersThatEndAreDoneWithout) {
  start(3);
  Caller caller(addresses_, "client");
  caller.add("sum");
  processes_[1].reset();
  EXPECT_EQ(caller.add("sum"), 2U);
  processes_[2].reset();
  EXPECT_EQ(caller.add("sum"), 3U);
  EXPECT_EQ(processes_[0]->members(), 1U);
}

TEST_F(Copies, WhoComesBackToTheDoorIsShownTheWay) {
  start(2);
  const auto endpoint = addresses_.front();
  Caller(addresses_, "client").add("sum");
  processes_.front().reset();
  ASSERT_TRUE(wait_until([&] { return processes_.back()->standing().leads; }));
  // As the first process when it is started again: it waits for an announcement before it opens a store of its own.
  processes_.front() = std::make_unique<Process>(endpoint, endpoint.port);
  ASSERT_TRUE(wait_until([&] { return processes_.front()->standing().joined; }));
  ASSERT_TRUE(wait_until([&] { return processes_.back()->members() == 2; }));
  // One that knows the endpoint alone.
  Process late(endpoint);
  ASSERT_TRUE(wait_until([&] { return late.standing().joined; }));
  // The one that took over ends too.
  processes_.back().reset();
  EXPECT_EQ(Caller({endpoint, late.own()}, "client").get("sum"), "1");
}

TEST_F(Copies, ATwoThatOnlyOneIsLeftOfIsJoinedAgain) {
  start(2);
  for (int round = 0; round < 5; ++round) {
    const auto gone = leader()->own();
    leader().reset();
    auto& other = leader();
    for (auto& process : processes_) {
      if (!process) process = std::make_unique<Process>(other->own(), gone.port);
    }
    ASSERT_TRUE(wait_until([&] { return leader()->members() == 2; }));
    ASSERT_TRUE(wait_until([&] { return processes_[0]->standing().joined && processes_[1]->standing().joined; }));
    EXPECT_EQ(Caller(addresses_, "client " + std::to_string(round)).add("sum"), static_cast<std::uint64_t>(round) + 1);
  }
}

}  // namespace
}  // namespace lockstep::store
