// Wrong arguments: where libtorch answers with an error on one device, so do global tensors, on all ranks and however
// they are placed; where it does not, results are equal. Nothing ends a process.
#include <lockstep/base/error.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/global/global_tensor.h>

#include "support/ranks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <unistd.h>
#include <array>
#include <csignal>
#include <cstring>
#include <random>

namespace lockstep {
namespace {

using test::Rank;
using test::RankOptions;
using Tensors = std::vector<torch::Tensor>;

struct Attempt {
  std::string name;
  Tensors inputs;
  std::function<Tensors(const Tensors&)> run;  ///< may write into the inputs, which are results, too
};

torch::Tensor floats(std::vector<std::int64_t> sizes) { return torch::randn(sizes); }

/// Of all pairs of an operator and two shapes, every so many are tried: prime, so that all operators and all shapes
/// are.
constexpr std::size_t kEach = 5;
constexpr std::int64_t kNoPadding = 0;  // 0 may also be the name of a padding

using One = torch::Tensor (*)(const torch::Tensor&);

Attempt on(std::string name, Tensors inputs, std::function<Tensors(const Tensors&)> run) {
  return {std::move(name), std::move(inputs), std::move(run)};
}

Attempt one(std::string name, std::vector<std::int64_t> sizes, One run) {
  return on(std::move(name), {floats(std::move(sizes))}, [run](const Tensors& in) { return Tensors{run(in[0])}; });
}

using X = const torch::Tensor&;
using In = const Tensors&;

/// Each operator that takes a dimension, with one that the tensor does not have, before and behind.
std::vector<Attempt> dimensions() {
  using AtDim = torch::Tensor (*)(X, std::int64_t);
  const std::vector<std::pair<std::string, AtDim>> operators{
      {"sum", [](X x, std::int64_t dim) { return x.sum(dim); }},
      {"mean", [](X x, std::int64_t dim) { return x.mean(dim); }},
      {"amax", [](X x, std::int64_t dim) { return x.amax(dim); }},
      {"max", [](X x, std::int64_t dim) { return std::get<0>(x.max(dim)); }},
      {"min", [](X x, std::int64_t dim) { return std::get<1>(x.min(dim)); }},
      {"argmax", [](X x, std::int64_t dim) { return x.argmax(dim); }},
      {"prod", [](X x, std::int64_t dim) { return x.prod(dim); }},
      {"any", [](X x, std::int64_t dim) { return x.any(dim); }},
      {"var", [](X x, std::int64_t dim) { return x.var(at::IntArrayRef(dim)); }},
      {"std_mean", [](X x, std::int64_t dim) { return std::get<1>(at::std_mean(x, at::IntArrayRef(dim))); }},
      {"norm", [](X x, std::int64_t dim) { return at::linalg_vector_norm(x, 2, at::IntArrayRef{dim}); }},
      {"logsumexp", [](X x, std::int64_t dim) { return x.logsumexp(dim); }},
      {"count_nonzero", [](X x, std::int64_t dim) { return x.count_nonzero(at::IntArrayRef(dim)); }},
      {"median", [](X x, std::int64_t dim) { return std::get<0>(x.median(dim)); }},
      {"kthvalue", [](X x, std::int64_t dim) { return std::get<0>(x.kthvalue(1, dim)); }},
      {"mode", [](X x, std::int64_t dim) { return std::get<0>(x.mode(dim)); }},
      {"cumsum", [](X x, std::int64_t dim) { return x.cumsum(dim); }},
      {"cumprod", [](X x, std::int64_t dim) { return x.cumprod(dim); }},
      {"cummax", [](X x, std::int64_t dim) { return std::get<0>(x.cummax(dim)); }},
      {"logcumsumexp", [](X x, std::int64_t dim) { return x.logcumsumexp(dim); }},
      {"sort", [](X x, std::int64_t dim) { return std::get<0>(x.sort(dim)); }},
      {"topk", [](X x, std::int64_t dim) { return std::get<0>(x.topk(2, dim)); }},
      {"softmax", [](X x, std::int64_t dim) { return x.softmax(dim); }},
      {"log_softmax", [](X x, std::int64_t dim) { return x.log_softmax(dim); }},
      {"select", [](X x, std::int64_t dim) { return x.select(dim, 0); }},
      {"narrow", [](X x, std::int64_t dim) { return x.narrow(dim, 0, 2); }},
      {"slice", [](X x, std::int64_t dim) { return x.slice(dim, 0, 2); }},
      {"unsqueeze", [](X x, std::int64_t dim) { return x.unsqueeze(dim); }},
      {"squeeze", [](X x, std::int64_t dim) { return x.squeeze(dim); }},
      {"transpose", [](X x, std::int64_t dim) { return x.transpose(0, dim); }},
      {"movedim", [](X x, std::int64_t dim) { return x.movedim(0, dim); }},
      {"unbind", [](X x, std::int64_t dim) { return x.unbind(dim).at(0); }},
      {"split", [](X x, std::int64_t dim) { return x.split(2, dim).at(0); }},
      {"chunk", [](X x, std::int64_t dim) { return x.chunk(2, dim).at(0); }},
      {"split_with_sizes",
       [](X x, std::int64_t dim) {
         return x.split_with_sizes({1, 3}, dim).at(0);
       }},
      {"cat",
       [](X x, std::int64_t dim) {
         return at::cat({x, x}, dim);
       }},
      {"stack",
       [](X x, std::int64_t dim) {
         return at::stack({x, x}, dim);
       }},
      {"flip", [](X x, std::int64_t dim) { return x.flip(dim); }},
      {"roll", [](X x, std::int64_t dim) { return x.roll(1, dim); }},
      {"unfold", [](X x, std::int64_t dim) { return x.unfold(dim, 2, 1); }},
      {"diagonal", [](X x, std::int64_t dim) { return x.diagonal(0, 0, dim); }},
      {"flatten", [](X x, std::int64_t dim) { return x.flatten(0, dim); }},
      {"glu", [](X x, std::int64_t dim) { return at::glu(x, dim); }},
      {"renorm", [](X x, std::int64_t dim) { return x.renorm(2, dim, 1); }},
      {"repeat_interleave", [](X x, std::int64_t dim) { return x.repeat_interleave(2, dim); }},
      {"unsqueeze_", [](X x, std::int64_t dim) { return x.clone().unsqueeze_(dim); }},
      {"transpose_", [](X x, std::int64_t dim) { return x.clone().transpose_(0, dim); }},
      {"index_select",
       [](X x, std::int64_t dim) { return x.index_select(dim, at::zeros({1}, x.options().dtype(at::kLong))); }},
      {"gather",
       [](X x, std::int64_t dim) {
         return x.gather(dim, at::zeros({1, 1}, x.options().dtype(at::kLong)));
       }},
      {"index_fill",
       [](X x, std::int64_t dim) { return x.index_fill(dim, at::zeros({1}, x.options().dtype(at::kLong)), 3); }},
      {"scatter",
       [](X x, std::int64_t dim) {
         return x.scatter(dim, at::zeros({1, 1}, x.options().dtype(at::kLong)), 3);
       }},
  };
  std::vector<Attempt> all;
  for (const auto& [name, run] : operators) {
    for (const std::int64_t dim : {-3, -2, 1, 2, 100}) {
      all.push_back(on(name + " along " + std::to_string(dim), {floats({4, 3})},
                       [run = run, dim](In in) { return Tensors{run(in[0], dim)}; }));
    }
    all.push_back(on(name + " of a number", {floats({})}, [run = run](In in) { return Tensors{run(in[0], 0)}; }));
    all.push_back(on(name + " of nothing", {floats({0, 3})}, [run = run](In in) { return Tensors{run(in[0], 0)}; }));
  }
  return all;
}

std::vector<Attempt> shapes() {
  return {
      one("expand to other sizes", {4, 3},
          [](X x) {
            return x.expand({5, 3});
          }),
      one("expand to fewer dimensions", {4, 3}, [](X x) { return x.expand({3}); }),
      one("expand to -1 in front", {4, 3},
          [](X x) {
            return x.expand({-1, 4, 3});
          }),
      one("expand to -2", {1, 3},
          [](X x) {
            return x.expand({-2, 3});
          }),
      one("expand", {1, 3},
          [](X x) {
            return x.expand({2, 4, -1});
          }),
      one("view of another number", {4, 3},
          [](X x) {
            return x.view({5, 3});
          }),
      one("view with two unknown sizes", {4, 3},
          [](X x) {
            return x.view({-1, -1});
          }),
      one("view with a negative size", {4, 3},
          [](X x) {
            return x.view({-3, -4});
          }),
      one("view that does not divide", {4, 3},
          [](X x) {
            return x.view({-1, 5});
          }),
      one("view of the transposed", {4, 3}, [](X x) { return x.t().view({12}); }),
      one("view of nothing", {0, 3},
          [](X x) {
            return x.view({-1, 0});
          }),
      one("view as a larger dtype", {4, 3}, [](X x) { return x.view(at::kDouble); }),
      one("reshape to another number", {4, 3}, [](X x) { return x.reshape({7}); }),
      one("t of three dimensions", {2, 2, 2}, [](X x) { return x.t(); }),
      one("permute with too few", {4, 3}, [](X x) { return x.permute({0}); }),
      one("permute with one twice", {4, 3},
          [](X x) {
            return x.permute({0, 0});
          }),
      one("permute with one too large", {4, 3},
          [](X x) {
            return x.permute({0, 2});
          }),
      one("select behind the end", {4, 3}, [](X x) { return x.select(0, 4); }),
      one("select before the start", {4, 3}, [](X x) { return x.select(0, -5); }),
      one("narrow behind the end", {4, 3}, [](X x) { return x.narrow(0, 2, 3); }),
      one("narrow of a negative length", {4, 3}, [](X x) { return x.narrow(0, 2, -1); }),
      one("slice by zero", {4, 3}, [](X x) { return x.slice(0, 0, 4, 0); }),
      one("slice by a negative step", {4, 3}, [](X x) { return x.slice(0, 0, 4, -1); }),
      one("slice far behind", {4, 3}, [](X x) { return x.slice(0, 100, 200); }),
      one("split into parts of 0", {4, 3}, [](X x) { return x.split(0, 0).front(); }),
      one("split with wrong sizes", {4, 3},
          [](X x) {
            return x.split_with_sizes({1, 1}, 0).front();
          }),
      one("chunk into none", {4, 3}, [](X x) { return x.chunk(0, 0).front(); }),
      one("unfold by more than there is", {4, 3}, [](X x) { return x.unfold(0, 5, 1); }),
      one("unfold with step 0", {4, 3}, [](X x) { return x.unfold(0, 2, 0); }),
      one("diagonal of one dimension twice", {4, 3}, [](X x) { return x.diagonal(0, 1, 1); }),
      one("repeat with too few", {4, 3}, [](X x) { return x.repeat({2}); }),
      one("repeat a negative number of times", {4, 3},
          [](X x) {
            return x.repeat({-1, 2});
          }),
      one("roll without dimensions", {4, 3},
          [](X x) {
            return x.roll({1, 1}, {0});
          }),
      one("flip twice along one", {4, 3},
          [](X x) {
            return x.flip({0, 0});
          }),
      one("tril of a row", {3}, [](X x) { return x.tril(); }),
      one("as_strided behind the memory", {4, 3},
          [](X x) {
            return x.as_strided({5, 5}, {3, 1});
          }),
      one("as_strided with too few strides", {4, 3},
          [](X x) {
            return x.as_strided({2, 2}, {1});
          }),
      one("as_strided with a negative size", {4, 3}, [](X x) { return x.as_strided({-1}, {1}); }),
      one("sum along one twice", {4, 3},
          [](X x) {
            return x.sum(at::IntArrayRef{0, 0});
          }),
      one("var along one twice", {4, 3},
          [](X x) {
            return x.var(at::IntArrayRef{0, 0});
          }),
      one("amax of nothing", {0, 3}, [](X x) { return x.amax(); }),
      one("argmax of nothing", {0}, [](X x) { return x.argmax(); }),
      one("topk of more than there is", {4, 3}, [](X x) { return std::get<0>(x.topk(5, 0)); }),
      one("topk of a negative number", {4, 3}, [](X x) { return std::get<0>(x.topk(-1, 0)); }),
      one("kthvalue of 0", {4, 3}, [](X x) { return std::get<0>(x.kthvalue(0, 0)); }),
      one("kthvalue behind the end", {4, 3}, [](X x) { return std::get<0>(x.kthvalue(5, 0)); }),
      one("squeeze of what is no 1", {4, 3}, [](X x) { return x.squeeze(0); }),
      one("item of several", {4, 3}, [](X x) { return at::full({}, x.item<float>()); }),
      one("movedim with unlike lists", {4, 3},
          [](X x) {
            return x.movedim({0, 1}, {0});
          }),
      one("cat of unlike dimensions", {4, 3},
          [](X x) {
            return at::cat({x, x.select(0, 0)});
          }),
      one("cat of unlike sizes", {4, 3},
          [](X x) {
            return at::cat({x, x.narrow(1, 0, 2)});
          }),
      one("stack of unlike sizes", {4, 3},
          [](X x) {
            return at::stack({x, x.narrow(1, 0, 2)});
          }),
      one("cat of none", {4, 3}, [](X x) { return at::cat(at::ArrayRef<at::Tensor>()) + x; }),
      one("pad by too little", {4, 3},
          [](X x) {
            return at::constant_pad_nd(x, {-3, -3});
          }),
      one("pad with an odd number", {4, 3}, [](X x) { return at::constant_pad_nd(x, {1}); }),
      one("pad by more dimensions", {4, 3},
          [](X x) {
            return at::constant_pad_nd(x, {1, 1, 1, 1, 1, 1});
          }),
      one("reflection pad by more than there is", {2, 3, 3},
          [](X x) {
            return at::reflection_pad1d(x, {3, 3});
          }),
      one("new_zeros of a negative size", {4, 3}, [](X x) { return x.new_zeros({-1}); }),
      one("new_full", {4, 3}, [](X x) { return x.new_full({2}, 3); }),
      one("resize_", {4, 3}, [](X x) { return x.clone().resize_({-1}); }),
      one("squeeze_ of three", {4, 1}, [](X x) { return x.clone().squeeze_(1); }),
      one("t_ of three dimensions", {2, 2, 2}, [](X x) { return x.clone().t_(); }),
      one("det of no square", {4, 3}, [](X x) { return at::linalg_det(x); }),
      one("inverse of no square", {4, 3}, [](X x) { return at::linalg_inv(x); }),
      one("cholesky of what has none", {3, 3}, [](X x) { return at::linalg_cholesky(-x.mm(x.t()) - 1); }),
      one("cross of two", {4, 2}, [](X x) { return at::linalg_cross(x, x); }),
      one("trace of a row", {4}, [](X x) { return x.trace(); }),
      one("fft of length 0", {4, 3}, [](X x) { return at::real(at::fft_fft(x, 0)); }),
      one("multinomial of negative weights", {3}, [](X x) { return at::multinomial(-x.abs() - 1, 2); }),
      one("bernoulli of 7", {3}, [](X x) { return at::bernoulli(x.abs() + 7); }),
      one("normal_ with a negative deviation", {4, 3}, [](X x) { return x.clone().normal_(0, -1); }),
      one("uniform_ from more to less", {4, 3}, [](X x) { return x.clone().uniform_(2, 1); }),
      one("dropout by 2", {4, 3}, [](X x) { return at::dropout(x, 2, true); }),
      one("histc", {4, 3}, [](X x) { return at::histc(x, 0); }),
      one("one_hot of floats", {4}, [](X x) { return at::one_hot(x); }),
      one("bincount of floats", {4}, [](X x) { return at::bincount(x); }),
      one("complex view of three", {4, 3}, [](X x) { return at::view_as_complex(x); }),
      one("imag of real numbers", {4, 3}, [](X x) { return at::imag(x); }),
  };
}

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

/// Results and, behind them, inputs as they are afterwards; nothing where it threw.
std::optional<Tensors> outcome(const Attempt& attempt, const Tensors& inputs, std::string& error) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(7);
  try {
    auto results = attempt.run(inputs);
    results.insert(results.end(), inputs.begin(), inputs.end());
    for (auto& each : results) each = is_global(each) ? full(each) : each;
    return results;
  } catch (const std::exception& caught) {
    error = caught.what();
    return std::nullopt;
  }
}

bool same(const Tensors& got, const Tensors& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (got[i].sizes() != expected[i].sizes() || got[i].scalar_type() != expected[i].scalar_type()) return false;
    const bool equal = expected[i].is_floating_point() ? torch::allclose(got[i], expected[i], 1e-4, 1e-4, true)
                                                       : torch::equal(got[i], expected[i]);
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
  const auto expected = outcome(attempt, copies, plain_error);
  for (const auto& lying : ways_for(attempt.inputs)) {
    const auto where = fmt::format("{} on {} with {}", attempt.name, mesh.group().size(), to_string(lying));
    note(where);
    Tensors inputs;
    for (std::size_t i = 0; i < lying.size(); ++i) {
      inputs.push_back(distribute(attempt.inputs[i], mesh, {lying[i]}, Source::same_everywhere));
    }
    std::string error;
    const auto got = outcome(attempt, inputs, error);
    const auto threw = all_gather(at::tensor({got ? 0 : 1}), mesh.group());
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
    const Mesh mesh(rank.group());
    for (const auto& each : attempts) ASSERT_NO_FATAL_FAILURE(expect_as_on_one_device(each, mesh));
  });
}

class GlobalMisuse : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { torch::manual_seed(3); }
};

TEST_P(GlobalMisuse, OfDimensions) { attempt_all(GetParam(), dimensions()); }
TEST_P(GlobalMisuse, OfShapes) { attempt_all(GetParam(), shapes()); }

INSTANTIATE_TEST_SUITE_P(, GlobalMisuse, testing::Values(1, 2, 3),
                         [](const auto& ranks) { return std::to_string(ranks.param) + "_ranks"; });

}  // namespace
}  // namespace lockstep
