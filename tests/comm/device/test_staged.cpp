// Operations through the host's memory, with streams that only note down what happens (recorded_streams.h) and tensors
// of the CPU that stand for those of the device: order, errors and ends of the stages, and the backend between
// processes.
#include <lockstep/comm/backends.h>
#include <lockstep/comm/group_impl.h>
#include <lockstep/comm/meet/stores.h>
#include <lockstep/comm/staged/stages.h>

#include "comm/device/recorded_streams.h"
#include "comm/suite.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::detail {
std::unique_ptr<Backend> make_staged_backend(const BackendContext& context);
}

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using detail::staged::Pair;
using detail::staged::Stages;

constexpr auto kPatience = 60s;
constexpr auto kMoment = 100ms;  ///< after which what must not happen would have

void await(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::sleep_for(1ms);
  }
}

/// An operation of a backend for the CPU that the test ends.
class Held : public detail::WorkState {
 public:
  void wait(std::chrono::milliseconds) override {
    if (problem) throw Error(*problem);
  }
  bool test() override { return over; }
  void check_peers() override {
    if (lost) throw Error(ErrorKind::peer_lost, "held", "rank 1 ended");
  }

  std::optional<Error> problem;
  std::atomic<bool> over{false};
  std::atomic<bool> lost{false};
};

class StagesTest : public testing::Test {
 protected:
  void SetUp() override { forget_streams(); }

  /// An operation on `value`; what the host does with it is to add 1.
  detail::Backend::Pending run(Stages& stages, const at::Tensor& value, std::shared_ptr<Held> held = nullptr) {
    Pair pair{value, stages.on_host(value)};
    return stages.run({.before = {pair},
                       .start = [this, pair, held]() mutable -> detail::Backend::Pending {
                         ++started_;
                         pair.on_host += 1;
                         if (held) return held;
                         auto done = std::make_shared<Held>();
                         done->over = true;
                         return done;
                       },
                       .after = {pair}});
  }

  std::atomic<int> started_{0};
};

TEST_F(StagesTest, WaitForTheDeviceThenTheHostThenTheDevice) {
  Stages stages(recorded_device(), 1s);
  const auto value = at::ones({3});
  auto held = std::make_shared<Held>();
  const auto work = run(stages, value, held);
  // 1: what the program has done; 2 and 3: begin and end of the copy to the host.
  EXPECT_EQ(take_notes(), (std::vector<std::string>{"record 1 on current", "lane waits for 1", "lane uses memory",
                                                    "record 2 on lane", "record 3 on lane"}));
  std::this_thread::sleep_for(kMoment);
  EXPECT_EQ(started_, 0) << "the device has not copied yet";
  EXPECT_FALSE(work->test());
  EXPECT_THROW(work->wait(1ms), Error) << "and may be asked again";
  pass_event(3);
  await([&] { return started_ == 1; });
  EXPECT_TRUE(same(value, at::ones({3})));
  held->over = true;
  work->wait(kPatience);
  EXPECT_TRUE(same(value, at::full({3}, 2.0F)));
  const auto notes = take_notes();
  EXPECT_EQ(notes.back(), "current waits for 6") << "the end of the copy to the device";
  EXPECT_FALSE(work->test()) << "the device is not there yet";
  pass_event(6);
  EXPECT_TRUE(work->test());
}

TEST_F(StagesTest, BeginOnTheHostInTheOrderOfCallsAndEndInAny) {
  Stages stages(recorded_device(), 1s);
  auto first = std::make_shared<Held>();
  const auto one = run(stages, at::ones({1}), first);
  const auto two = run(stages, at::ones({1}));
  pass_event(6);  // of the second; the device cannot do that, so nothing may begin
  std::this_thread::sleep_for(kMoment);
  EXPECT_EQ(started_, 0);
  pass_event(3);
  two->wait(kPatience);
  EXPECT_EQ(started_, 2);
  EXPECT_FALSE(one->test()) << "as a message that has not come yet";
  first->over = true;
  one->wait(kPatience);
}

TEST_F(StagesTest, ErrorsComeWithTheWait) {
  pass_all_events();
  Stages stages(recorded_device(), 1s);
  const auto refused = stages.run({.before = {},
                                   .start = []() -> detail::Backend::Pending {
                                     throw Error(ErrorKind::unsupported, "all_reduce", "not this dtype");
                                   },
                                   .after = {}});
  EXPECT_EQ(error_of([&] { refused->wait(kPatience); }).kind(), ErrorKind::unsupported);

  auto broken = std::make_shared<Held>();
  broken->problem = Error(ErrorKind::peer_lost, "all_reduce", "the connection broke");
  broken->over = true;
  const auto value = at::ones({1});
  const auto work = run(stages, value, broken);
  expect_words(error_of([&] { work->wait(kPatience); }), {"the connection broke"});
  EXPECT_TRUE(same(value, at::ones({1}))) << "nothing is copied back";
  EXPECT_TRUE(work->test());

  auto waiting = std::make_shared<Held>();
  waiting->lost = true;
  const auto lost = run(stages, at::ones({1}), waiting);
  expect_words(error_of([&] { lost->wait(kPatience); }), {"rank 1 ended"});

  run(stages, at::ones({1}))->wait(kPatience);  // the others go on
}

TEST_F(StagesTest, AbortEndsWhatWaits) {
  Stages stages(recorded_device(), 1min);
  const auto copying = run(stages, at::ones({1}), std::make_shared<Held>());
  stages.abort();
  expect_words(error_of([&] { copying->wait(kPatience); }), {"ended"});
  const auto later = run(stages, at::ones({1}));
  expect_words(error_of([&] { later->wait(kPatience); }), {"ended"});
}

TEST_F(StagesTest, AreTakenToTheirEndByTheDestructor) {
  pass_all_events();
  const auto value = at::ones({1});
  auto held = std::make_shared<Held>();
  std::thread other;
  {
    Stages stages(recorded_device(), kPatience);
    run(stages, value, held);
    other = std::thread([held] {
      std::this_thread::sleep_for(kMoment);
      held->over = true;
    });
  }
  EXPECT_TRUE(same(value, at::full({1}, 2.0F)));
  other.join();
}

TEST_F(StagesTest, OfOthersThatNeverComeEndAtTheTimeout) {
  pass_all_events();
  detail::Backend::Pending work;
  {
    Stages stages(recorded_device(), kMoment);
    work = run(stages, at::ones({1}), std::make_shared<Held>());
  }
  EXPECT_THROW(work->wait(kPatience), Error);
}

/// The backend beside that of `group`, with tensors of the CPU.
std::unique_ptr<detail::Backend> staged_over(const Group& group) {
  auto& impl = group.impl();
  const auto& members = impl.members();
  detail::BackendContext context;
  context.store = c10::make_intrusive<c10d::PrefixStore>("staged_test", impl.job()->store());
  context.rank = members.rank;
  context.size = members.size();
  context.world_ranks = members.world_ranks;
  context.name = "staged_test";
  context.start_timeout = context.timeout = kPatience;
  context.hosts = members.hosts;
  context.one_host = members.local_size == members.size();
  context.tls = impl.job()->world().tls;
  context.network = "tcp";
  context.bind_address = impl.job()->bind_address();
  context.describe_rank = [](int rank) { return "rank " + std::to_string(rank); };
  const auto job = impl.job();
  context.throw_if_lost = context.while_connecting = [job](const std::vector<int>& ranks) {
    if (const auto cause = job->find_cause(ranks, 0ms)) throw Error(ErrorKind::peer_lost, "test", *cause);
  };
  context.throw_if_failed = [job] {
    if (const auto cause = job->find_failure()) throw Error(ErrorKind::peer_lost, "test", *cause);
  };
  context.device = recorded_device();
  context.beside = &impl.backend();
  return detail::make_staged_backend(context);
}

class StagedBackendTest : public CommSuite {};

TEST_P(StagedBackendTest, GivesTheBitsOfTheBackendBelow) {
  run([](Rank& self) {
    pass_all_events();
    const auto& group = self.group();
    const int n = group.size();
    const auto staged = staged_over(group);
    EXPECT_EQ(staged->name(), "staged");
    std::uint64_t sequence = 0;
    const auto call = [&] { return detail::Call{.op = "test", .sequence = ++sequence}; };
    const auto values = at::randn({n * 100, 7}, at::detail::createCPUGenerator(7 + self.rank()));

    auto all = values.clone();
    auto expected = values.clone();
    staged->all_reduce(all, ReduceOp::sum, call())->wait(kPatience);
    all_reduce(expected, group);
    EXPECT_TRUE(same(all, expected));

    all = values.clone();
    expected = values.clone();
    staged->reduce(all, n - 1, ReduceOp::mean, call())->wait(kPatience);
    reduce(expected, group, n - 1, ReduceOp::mean);
    EXPECT_TRUE(same(all, expected)) << "and those of other ranks do not change";

    all = values.clone();
    expected = values.clone();
    staged->broadcast(all, n - 1, call())->wait(kPatience);
    broadcast(expected, group, n - 1);
    EXPECT_TRUE(same(all, expected));

    auto output = at::zeros({n * n * 100, 7});
    staged->all_gather(output, values, call())->wait(kPatience);
    EXPECT_TRUE(same(output, all_gather(values, group)));

    output = at::zeros({100, 7});
    staged->reduce_scatter(output, values, ReduceOp::sum, call())->wait(kPatience);
    EXPECT_TRUE(same(output, reduce_scatter(values, group)));

    output = at::zeros_like(values);
    staged->all_to_all(output, values, call())->wait(kPatience);
    EXPECT_TRUE(same(output, all_to_all(values, group)));

    output = self.rank() == 0 ? at::zeros({n * n * 100, 7}) : at::Tensor();
    staged->gather(self.rank() == 0 ? &output : nullptr, values, 0, call())->wait(kPatience);
    const auto gathered = gather(values, group, 0);
    if (self.rank() == 0) {
      EXPECT_TRUE(same(output, gathered));
    }

    output = at::zeros({100, 7});
    staged->scatter(output, self.rank() == 0 ? &values : nullptr, 0, call())->wait(kPatience);
    EXPECT_TRUE(same(output, scatter(values, group, 0, at::zeros({100, 7}))));
    barrier(group);
  });
}

TEST_P(StagedBackendTest, MessagesCrossEachOther) {
  if (size() == 1) GTEST_SKIP() << "one rank has nobody to send to";
  run([](Rank& self) {
    pass_all_events();
    const auto staged = staged_over(self.group());
    const int n = self.size();
    const int next = (self.rank() + 1) % n;
    const int before = (self.rank() + n - 1) % n;
    auto came = at::zeros({1000});
    // All of them receive before they send.
    const auto received = staged->receive(came, before, 3, {.op = "receive", .sequence = 1});
    const auto sent =
        staged->send(at::full({1000}, static_cast<float>(self.rank())), next, 3, {.op = "send", .sequence = 2});
    sent->wait(kPatience);
    received->wait(kPatience);
    EXPECT_TRUE(same(came, at::full({1000}, static_cast<float>(before))));
    barrier(self.group());
  });
}

TEST_P(StagedBackendTest, ManyAtOnceKeepTheirOrder) {
  run([](Rank& self) {
    pass_all_events();
    const auto staged = staged_over(self.group());
    std::vector<at::Tensor> tensors;
    std::vector<detail::Backend::Pending> works;
    for (int i = 0; i < 50; ++i) {
      tensors.push_back(at::full({i * i * 10 + 1}, i));
      works.push_back(staged->all_reduce(tensors.back(), ReduceOp::sum,
                                         {.op = "all_reduce", .sequence = static_cast<std::uint64_t>(i + 1)}));
    }
    for (int i = 49; i >= 0; --i) {
      works[static_cast<std::size_t>(i)]->wait(kPatience);
      EXPECT_TRUE(same(tensors[static_cast<std::size_t>(i)], at::full({i * i * 10 + 1}, i * self.size())));
    }
    barrier(self.group());
  });
}

TEST_P(StagedBackendTest, AKilledRankEndsTheWaitOfTheOthers) {
  if (size() == 1) GTEST_SKIP() << "one rank has no other that could see its end";
  const auto outcomes = rank_outcomes(size(), options_of(GetParam()), [](Rank& self) {
    pass_all_events();
    const auto staged = staged_over(self.group());
    barrier(self.group());
    if (self.rank() == self.size() - 1) self.kill_self();
    auto tensor = at::ones({1000});
    const auto error = error_of(
        [&] { staged->all_reduce(tensor, ReduceOp::sum, {.op = "all_reduce", .sequence = 1})->wait(kPatience); });
    EXPECT_EQ(error.kind(), ErrorKind::peer_lost) << error.what();
    staged->abort();
  });
  for (const auto& outcome : outcomes) {
    if (outcome.rank == size() - 1) continue;
    EXPECT_TRUE(outcome.ok()) << describe(outcome);
  }
}

std::vector<Case> cases_below() {
  std::vector<Case> chosen;
  for (const auto& one : cases()) {
    if (one.first != "mpi" && one.second <= 3) chosen.push_back(one);
  }
  return chosen;
}

INSTANTIATE_TEST_SUITE_P(Over, StagedBackendTest, testing::ValuesIn(cases_below()), case_name);

}  // namespace
}  // namespace lockstep::test
