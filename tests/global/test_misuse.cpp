// Wrong arguments: where libtorch answers with an error on one device, so do global tensors, on all ranks and however
// they are placed; where it does not, results are equal. Nothing ends a process.
#include <lockstep/base/error.h>
#include <lockstep/global/global_tensor.h>

#include "misuse/attempts.h"
#include "support/ranks.h"

#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <unistd.h>
#include <array>
#include <csignal>
#include <cstring>

namespace lockstep {
namespace {

using test::Attempt;
using test::Rank;
using test::RankOptions;
using test::Tensors;

std::vector<Placement> ways_to_lie(const torch::Tensor& input) {
  std::vector<Placement> ways{Replicate()};
  for (std::int64_t dim = 0; dim < input.dim(); ++dim) ways.push_back(Shard(dim));
  if (input.is_floating_point()) ways.push_back(Partial());
  return ways;
}

/// All ways for one input, and for several as many as the inputs have at most, each input's in another order.
std::vector<std::vector<Placement>> ways_for(const Tensors& inputs) {
  std::size_t most = 0;
  for (const auto& each : inputs) most = std::max(most, ways_to_lie(each).size());
  std::vector<std::vector<Placement>> all(most);
  for (std::size_t way = 0; way < most; ++way) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto ways = ways_to_lie(inputs[i]);
      all[way].push_back(ways[(way + i * (way / 2)) % ways.size()]);
    }
  }
  return all;
}

/// A number of each rank, in a collective of the mesh: errors that one rank alone had come to the others in it.
torch::Tensor of_all_ranks(std::int64_t number, const Mesh& mesh) {
  return full(to_global(at::tensor({number}), mesh, {Shard(0)}));
}

/// Results and, behind them, inputs as they are afterwards; nothing where it threw. With a mesh they are global.
std::optional<Tensors> outcome(const Attempt& attempt, const Tensors& inputs, const std::optional<Mesh>& mesh,
                               std::string& error) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(7);
  try {
    auto results = attempt.run(inputs);
    results.insert(results.end(), inputs.begin(), inputs.end());
    for (auto& each : results) each = is_global(each) ? full(each) : each;
    if (mesh) of_all_ranks(0, *mesh);
    return results;
  } catch (const std::exception& caught) {
    error = caught.what();
    return std::nullopt;
  }
}

bool same(const Tensors& got, const Tensors& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (got[i].sizes() != expected[i].sizes() || got[i].scalar_type() != expected[i].scalar_type()) return false;
    const bool whole = !expected[i].is_floating_point() && !expected[i].is_complex();
    const auto dtype = expected[i].is_complex() ? torch::kComplexDouble : torch::kDouble;
    const double close = expected[i].element_size() == 2 ? 1e-2 : 1e-4;
    const bool equal = whole ? torch::equal(got[i], expected[i])
                             : torch::allclose(got[i].to(dtype), expected[i].to(dtype), close, close, true);
    if (!equal) return false;
  }
  return true;
}

std::array<char, 300> under_way;

extern "C" void name_what_was_under_way(int signal) {
  const auto length = std::strlen(under_way.data());
  if (::write(STDERR_FILENO, under_way.data(), length) < 0) ::_exit(3);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void note(const std::string& what) {
  std::snprintf(under_way.data(), under_way.size(), "\nended in %s\n", what.c_str());
}

void expect_as_on_one_device(const Attempt& attempt, const Mesh& mesh) {
  Tensors copies;
  for (const auto& each : attempt.inputs) copies.push_back(each.clone());
  std::string plain_error;
  note(attempt.name + " on one device");
  const auto expected = outcome(attempt, copies, std::nullopt, plain_error);
  for (const auto& lying : ways_for(attempt.inputs)) {
    const auto where = fmt::format("{} on {} with {}", attempt.name, mesh.group().size(), to_string(lying));
    note(where);
    Tensors inputs;
    for (std::size_t i = 0; i < lying.size(); ++i) {
      inputs.push_back(distribute(attempt.inputs[i], mesh, {lying[i]}, Source::same_everywhere));
    }
    std::string error;
    const auto got = outcome(attempt, inputs, mesh, error);
    const auto threw = of_all_ranks(got ? 0 : 1, mesh);
    ASSERT_TRUE(threw.eq(threw[0]).all().item<bool>()) << where << ": not all ranks throw: " << threw << error;
    EXPECT_EQ(got.has_value(), expected.has_value())
        << where << ": " << (got ? "no error, but on one device: " + plain_error : error);
    EXPECT_TRUE(!got || !expected || same(*got, *expected)) << where << "\n" << *got << "\nexpected\n" << *expected;
  }
}

void attempt_all(int ranks, const std::vector<Attempt>& attempts) {
  const RankOptions options{.deadline = std::chrono::seconds(300), .group = RankOptions::test_group_options("shm")};
  test::run_ranks(ranks, options, [&](Rank& rank) {
    for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS}) std::signal(signal, name_what_was_under_way);
    torch::set_num_threads(1);
    c10::SetStackTraceFetcher([] { return std::string(); });  // milliseconds for each error
    const Mesh mesh(rank.group());
    for (const auto& each : attempts) ASSERT_NO_FATAL_FAILURE(expect_as_on_one_device(each, mesh));
  });
}

class GlobalMisuse : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { torch::manual_seed(3); }
};

TEST_P(GlobalMisuse, OfDimensions) { attempt_all(GetParam(), test::dimensions()); }
TEST_P(GlobalMisuse, OfShapes) { attempt_all(GetParam(), test::shapes()); }
TEST_P(GlobalMisuse, OfPairs) { attempt_all(GetParam(), test::pairs()); }
TEST_P(GlobalMisuse, OfIndices) { attempt_all(GetParam(), test::indices()); }
TEST_P(GlobalMisuse, OfLosses) { attempt_all(GetParam(), test::losses()); }
TEST_P(GlobalMisuse, OfLayers) { attempt_all(GetParam(), test::layers()); }
TEST_P(GlobalMisuse, OfDtypes) { attempt_all(GetParam(), test::dtypes()); }

INSTANTIATE_TEST_SUITE_P(, GlobalMisuse, testing::Values(1, 2, 3),
                         [](const auto& ranks) { return std::to_string(ranks.param) + "_ranks"; });

}  // namespace
}  // namespace lockstep
