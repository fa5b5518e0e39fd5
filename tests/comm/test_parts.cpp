// The parts that need no ranks: fingerprints, counts, settings, who is where.
#include <lockstep/comm/arguments.h>
#include <lockstep/comm/backends.h>
#include <lockstep/comm/hierarchy/plans.h>
#include <lockstep/comm/meet/rendezvous.h>

#include "comm/suite.h"

#include <unistd.h>

#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

namespace lockstep::test {
namespace {

TEST(Fingerprint, HasOneLengthAndTellsAllCallsApart) {
  const std::string long_call(500, 'x');
  EXPECT_EQ(detail::fingerprint("barrier").size(), detail::kFingerprintBytes);
  EXPECT_EQ(detail::fingerprint(long_call + "a").size(), detail::kFingerprintBytes);
  EXPECT_EQ(detail::fingerprint("a"), detail::fingerprint("a"));
  EXPECT_NE(detail::fingerprint("a"), detail::fingerprint("b"));
  // They differ only beyond what fits.
  EXPECT_NE(detail::fingerprint(long_call + "a"), detail::fingerprint(long_call + "b"));
}

TEST(Fingerprint, DisagreementListsRanksByWhatTheyCall) {
  const auto a = detail::fingerprint("all_reduce sum of float32[2]");
  const auto b = detail::fingerprint("barrier");
  EXPECT_FALSE(detail::disagreement({a, a, a}));
  EXPECT_EQ(detail::disagreement({a, b, a}), "ranks 0, 2: all_reduce sum of float32[2]; rank 1: barrier");
}

TEST(Split, CoversTheWholeInOrder) {
  using detail::Span;
  using detail::split;
  EXPECT_TRUE(split(0, 4).empty());
  EXPECT_EQ(split(4, 4), (std::vector<Span>{{0, 4}}));
  EXPECT_EQ(split(9, 4), (std::vector<Span>{{0, 4}, {4, 4}, {8, 1}}));
  // Above what an int counts to.
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  const std::int64_t total = 5 * kMost + 3;
  const auto spans = split(total, kMost);
  ASSERT_EQ(spans.size(), 6u);
  std::int64_t next = 0;
  for (const auto& span : spans) {
    EXPECT_EQ(span.begin, next);
    EXPECT_LE(span.count, std::numeric_limits<int>::max());
    next += span.count;
  }
  EXPECT_EQ(next, total);
}

TEST(ChooseBackend, FollowsTheRequestAndTheHosts) {
  using detail::choose_backend;
  EXPECT_EQ(choose_backend("auto", {0}), "self");
  EXPECT_EQ(choose_backend("gloo", {0}), "self");
  EXPECT_EQ(choose_backend("auto", {0, 0}), "shm");
  for (const auto* requested : {"auto", "tcp", "gloo", "tls"}) EXPECT_EQ(choose_backend(requested, {0, 1}), "tcp");
  EXPECT_EQ(choose_backend("auto", {0, 1, 0}), "hierarchy");
  EXPECT_EQ(choose_backend("hierarchy", {0, 1}), "hierarchy");
  EXPECT_EQ(choose_backend("hierarchy", {0, 0}), "shm");
  EXPECT_EQ(choose_backend("mpi", {0, 1}), "mpi");
  expect_words(error_of([] { choose_backend("self", {0, 0, 0}); }), {"self", "3"});
  // What stands beside one for CUDA is what auto means.
  EXPECT_EQ(choose_backend("nccl", {0, 0}), "shm");
  EXPECT_EQ(choose_backend("nccl", {0, 1, 0}), "hierarchy");
  EXPECT_EQ(choose_backend("staged", {0, 0}), "shm");
}

TEST(ChooseBackend, ForCudaTensors) {
  using detail::choose_cuda_backend;
  for (const auto* requested : {"auto", "nccl", "staged", "shm"})
    EXPECT_EQ(choose_cuda_backend(requested, {0}), "self");
  for (const auto& hosts : {std::vector{0, 0}, std::vector{0, 1, 0}}) {
    EXPECT_EQ(choose_cuda_backend("nccl", hosts), "nccl");
    EXPECT_EQ(choose_cuda_backend("staged", hosts), "staged");
  }
  for (const auto* requested : {"shm", "tcp", "gloo", "tls", "mpi", "hierarchy"}) {
    EXPECT_EQ(choose_cuda_backend(requested, {0, 0}), "staged") << "over " << requested;
    EXPECT_TRUE(detail::may_share_devices(requested));
    EXPECT_FALSE(detail::is_for_cuda(requested));
  }
  EXPECT_TRUE(detail::is_for_cuda("nccl"));
  EXPECT_TRUE(detail::is_for_cuda("staged"));
  EXPECT_FALSE(detail::is_for_cuda("auto"));
  EXPECT_TRUE(detail::may_share_devices("staged"));
  EXPECT_FALSE(detail::may_share_devices("nccl"));
  EXPECT_FALSE(detail::may_share_devices("auto")) << "who shares by mistake hears of it";
}

TEST(ChooseBackend, AutoForCudaTensorsIsWhatTheBuildHas) {
  const auto choose = [](bool encrypt) { return std::string(detail::choose_cuda_backend("auto", {0, 1}, encrypt)); };
  if (!detail::backend_called("staged").built) {
    expect_words(error_of([&] { choose(false); }), {"built for CPUs alone", "docs/libtorch.md"});
    return;
  }
  EXPECT_EQ(choose(false), detail::backend_called("nccl").built ? "nccl" : "staged");
  EXPECT_EQ(choose(true), "staged") << "NCCL cannot encrypt";
}

TEST(Backends, HaveOneRowEachAndServeWhatIsChosen) {
  std::vector<std::string> choices = {"auto"};
  for (const auto& kind : detail::backends()) {
    choices.emplace_back(kind.name);
    EXPECT_EQ(&detail::backend_called(kind.name), &kind);
  }
  for (const auto* word : {"gloo", "tls"}) {
    EXPECT_EQ(&detail::backend_called(word), &detail::backend_called("tcp"));
    choices.emplace_back(word);
  }
  EXPECT_EQ(detail::backend_choices(), choices);
  EXPECT_EQ(std::set<std::string>(choices.begin(), choices.end()).size(), choices.size());
  expect_words(error_of([] { detail::backend_called("auto"); }), {"no backend", "auto"});
  using Serves = detail::BackendKind::Serves;
  EXPECT_NE(detail::backend_called(detail::choose_backend("auto", {0, 0})).serves, Serves::one_rank);
  EXPECT_EQ(detail::backend_called(detail::choose_backend("auto", {0, 1})).serves, Serves::any_hosts);
  EXPECT_EQ(detail::backend_called(detail::choose_backend("auto", {0, 0, 1})).serves, Serves::any_hosts);
}

TEST(RankInfo, SurvivesTheStore) {
  World world;
  world.rank = 3;
  world.size = 5;
  world.host = "node \"b\"";
  auto info = detail::this_rank(world, "10.0.0.7");
  info.address_chosen_by = "GLOO_SOCKET_IFNAME=eth, interface eth1";
  const auto all = detail::decode_ranks(detail::encode({info}));
  ASSERT_EQ(all.size(), 1u);
  const auto& again = all.front();
  EXPECT_EQ(again.rank, 3);
  EXPECT_EQ(again.host, world.host);
  EXPECT_EQ(again.address, "10.0.0.7");
  EXPECT_EQ(again.address_chosen_by, info.address_chosen_by);
  EXPECT_EQ(again.pid, ::getpid());
  EXPECT_EQ(again.host_identity, info.host_identity);
  EXPECT_EQ(again.started_ticks, detail::started_ticks(::getpid()));
  EXPECT_NE(again.started_ticks, 0u);
  EXPECT_EQ(detail::started_ticks(-1), 0u);
}

TEST(RankInfo, OfAllRanksSurvivesTheStore) {
  std::vector<detail::RankInfo> ranks(3);
  for (int rank = 0; rank < 3; ++rank) {
    auto& info = ranks[static_cast<std::size_t>(rank)];
    info.rank = rank;
    info.host = rank == 1 ? "b" : "a";
    info.host_identity = "boot/" + info.host;
    info.pid = 100 + rank;
    info.started_ticks = 1000 + static_cast<std::uint64_t>(rank);
    info.address = "10.0.0." + std::to_string(rank % 2);
  }
  const auto again = detail::decode_ranks(detail::encode(ranks));
  ASSERT_EQ(again.size(), ranks.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) EXPECT_EQ(detail::encode({again[i]}), detail::encode({ranks[i]}));
  expect_words(error_of([] { detail::decode_ranks("[]"); }), {"list of ranks"});
  const auto refused = [](const std::string& people) {
    const auto text = R"({"places": [["a", "b", "c", "d", "e"]], "people": )" + people + "}";
    expect_words(error_of([&] { detail::decode_ranks(text); }), {"list of ranks"});
  };
  EXPECT_EQ(detail::decode_ranks(R"({"places": [["a", "b", "c", "d", "e"]], "people": " 0 0 7 7 0 9"})").front().pid,
            7);
  for (const auto* people : {"[[7, 1, 1]]", "\" 0 1 7 7 9\"", "\" 0 0 7 7\"", "\" 0 0 7 x 9\"", "\"0 0 7 7 9\""})
    refused(people);
}

}  // namespace
}  // namespace lockstep::test
