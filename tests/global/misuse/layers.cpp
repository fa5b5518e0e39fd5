// Layers whose weights, channels, sizes or numbers do not fit their inputs.
#include "attempts.h"

namespace lockstep::test {
namespace {

using Many = torch::Tensor (*)(In);
using Sizes = std::vector<std::int64_t>;

class Table {
 public:
  void add(const std::string& name, Tensors inputs, Many run) {
    all_.push_back(on(name, std::move(inputs), [run](In in) { return Tensors{run(in)}; }));
  }
  /// The same operator with inputs of each list of sizes.
  void add(const std::string& name, Many run, const std::vector<std::vector<Sizes>>& given) {
    for (const auto& sizes : given) {
      Tensors inputs;
      std::string what = name + " of";
      for (const auto& each : sizes) {
        inputs.push_back(floats(each));
        what += c10::str(" ", at::IntArrayRef(each));
      }
      add(what, std::move(inputs), run);
    }
  }
  std::vector<Attempt> take() { return std::move(all_); }

 private:
  std::vector<Attempt> all_;
};

void add_convolutions(Table& table) {
  const Sizes picture{2, 4, 5, 5};
  table.add("linear", [](In in) { return at::linear(in[0], in[1], in[2]); },
            {{{4, 3}, {2, 3}, {2}},
             {{4, 3}, {2, 4}, {2}},
             {{4, 3}, {2, 3}, {3}},
             {{4, 3}, {3}, {1}},
             {{2, 4, 3}, {2, 4}, {2}}});
  table.add("addmm", [](In in) { return at::addmm(in[0], in[1], in[2]); },
            {{{2}, {4, 3}, {3, 2}},
             {{3}, {4, 3}, {3, 2}},
             {{2}, {4, 3}, {2, 2}},
             {{4, 1}, {4, 3}, {3, 2}},
             {{3, 2}, {4, 3}, {3, 2}}});
  table.add("conv2d", [](In in) { return at::conv2d(in[0], in[1]); },
            {{picture, {3, 4, 3, 3}},
             {picture, {3, 3, 3, 3}},
             {picture, {3, 4, 6, 3}},
             {picture, {3, 4, 3}},
             {{4, 5, 5}, {3, 4, 3, 3}},
             {{5, 5}, {3, 4, 3, 3}},
             {picture, {0, 4, 3, 3}},
             {{0, 4, 5, 5}, {3, 4, 3, 3}}});
  table.add("conv2d with a bias", [](In in) { return at::conv2d(in[0], in[1], in[2]); },
            {{picture, {3, 4, 3, 3}, {3}},
             {picture, {3, 4, 3, 3}, {4}},
             {picture, {3, 4, 3, 3}, {1, 3}},
             {picture, {3, 4, 3, 3}, {}}});
  table.add("conv2d in groups", [](In in) { return at::conv2d(in[0], in[1], {}, {1}, at::IntArrayRef{0}, {1}, 2); },
            {{picture, {4, 2, 3, 3}}, {picture, {4, 4, 3, 3}}, {picture, {3, 2, 3, 3}}, {{2, 3, 5, 5}, {4, 2, 3, 3}}});
  table.add("conv2d without groups",
            [](In in) { return at::conv2d(in[0], in[1], {}, {1}, at::IntArrayRef{0}, {1}, 0); },
            {{picture, {4, 2, 3, 3}}});
  table.add("conv2d with step 0", [](In in) { return at::conv2d(in[0], in[1], {}, 0); }, {{picture, {3, 4, 3, 3}}});
  table.add("conv2d with negative padding",
            [](In in) { return at::conv2d(in[0], in[1], {}, {1}, at::IntArrayRef{-1}); }, {{picture, {3, 4, 3, 3}}});
  table.add("conv2d with dilation 0", [](In in) { return at::conv2d(in[0], in[1], {}, {1}, at::IntArrayRef{0}, {0}); },
            {{picture, {3, 4, 3, 3}}});
  table.add("conv2d with three steps",
            [](In in) {
              return at::conv2d(in[0], in[1], {}, {1, 1, 1});
            },
            {{picture, {3, 4, 3, 3}}});
  table.add("conv1d", [](In in) { return at::conv1d(in[0], in[1]); },
            {{{2, 4, 6}, {3, 4, 2}}, {{2, 4, 6}, {3, 2, 2}}, {{2, 4, 6}, {3, 4, 7}}, {picture, {3, 4, 3}}});
  table.add("conv3d", [](In in) { return at::conv3d(in[0], in[1]); },
            {{{2, 4, 3, 3, 3}, {3, 4, 2, 2, 2}}, {{2, 4, 3, 3, 3}, {3, 3, 2, 2, 2}}, {picture, {3, 4, 2, 2, 2}}});
  table.add("conv_transpose2d", [](In in) { return at::conv_transpose2d(in[0], in[1], in[2]); },
            {{picture, {4, 3, 2, 2}, {3}},
             {picture, {3, 3, 2, 2}, {3}},
             {picture, {4, 3, 2, 2}, {4}},
             {picture, {4, 3, 2}, {3}}});
  table.add("conv_transpose2d with padding", [](In in) { return at::conv_transpose2d(in[0], in[1], {}, 1, 0, 3); },
            {{picture, {4, 3, 2, 2}}});
  table.add("unfold", [](In in) { return at::im2col(in[0], {3, 3}, 1, 0, 1); }, {{picture}, {{2, 4, 2, 5}}, {{4, 5}}});
  table.add("fold",
            [](In in) {
              return at::col2im(in[0], {4, 4}, {2, 2}, 1, 0, 1);
            },
            {{{2, 8, 9}}, {{2, 7, 9}}, {{2, 8, 8}}});
}

void add_norms(Table& table) {
  table.add("batch_norm",
            [](In in) { return at::batch_norm(in[0], in[1], in[2], in[3], in[4], true, 0.1, 1e-5, false); },
            {{{4, 3}, {3}, {3}, {3}, {3}},
             {{4, 3}, {4}, {3}, {3}, {3}},
             {{4, 3}, {3}, {2}, {3}, {3}},
             {{4, 3}, {3}, {3}, {4}, {3}},
             {{4, 3}, {3}, {3}, {3}, {1}},
             {{3}, {3}, {3}, {3}, {3}},
             {{4, 3, 2, 2}, {4}, {4}, {4}, {4}},
             {{0, 3}, {3}, {3}, {3}, {3}}});
  table.add("batch_norm in evaluation",
            [](In in) { return at::batch_norm(in[0], {}, {}, in[1], in[2], false, 0.1, 1e-5, false); },
            {{{4, 3}, {3}, {3}}, {{4, 3}, {2}, {3}}, {{4, 3}, {3}, {4}}, {{2, 3, 4}, {4}, {4}}});
  table.add("batch_norm in evaluation without statistics",
            [](In in) { return at::batch_norm(in[0], {}, {}, {}, {}, false, 0.1, 1e-5, false); }, {{{4, 3}}});
  table.add("layer_norm", [](In in) { return at::layer_norm(in[0], {3}, in[1], in[2]); },
            {{{4, 3}, {3}, {3}},
             {{4, 3}, {4}, {3}},
             {{4, 3}, {3}, {1}},
             {{3, 4}, {3}, {3}},
             {{}, {3}, {3}},
             {{4, 3}, {1, 3}, {3}}});
  table.add("layer_norm over no dimension", [](In in) { return at::layer_norm(in[0], {}); }, {{{4, 3}}});
  table.add("layer_norm over two",
            [](In in) {
              return at::layer_norm(in[0], {4, 3}, in[1]);
            },
            {{{2, 4, 3}, {4, 3}}, {{2, 4, 3}, {3, 4}}, {{2, 3, 4}, {4, 3}}});
  table.add(
      "group_norm", [](In in) { return at::group_norm(in[0], 2, in[1], in[2]); },
      {{{2, 4, 3}, {4}, {4}}, {{2, 3, 3}, {3}, {3}}, {{2, 4, 3}, {3}, {4}}, {{2, 4, 3}, {4}, {4, 1}}, {{4}, {4}, {4}}});
  table.add("group_norm of no groups", [](In in) { return at::group_norm(in[0], 0); }, {{{2, 4, 3}}});
  table.add("instance_norm", [](In in) { return at::instance_norm(in[0], in[1], {}, {}, {}, true, 0.1, 1e-5, false); },
            {{{2, 4, 3}, {4}}, {{2, 4, 3}, {3}}, {{4}, {4}}});
}

void add_pooling(Table& table) {
  const std::vector<std::vector<Sizes>> inputs{{{2, 4, 5, 5}}, {{4, 5, 5}},    {{5, 5}},      {{2, 4, 1, 5}},
                                               {{2, 0, 5, 5}}, {{0, 4, 5, 5}}, {{2, 4, 0, 5}}};
  table.add(
      "max_pool2d", [](In in) { return at::max_pool2d(in[0], 2); }, inputs);
  table.add(
      "max_pool2d with indices", [](In in) { return std::get<1>(at::max_pool2d_with_indices(in[0], 2)); }, inputs);
  table.add(
      "max_pool2d of 0", [](In in) { return at::max_pool2d(in[0], 0); }, inputs);
  table.add(
      "max_pool2d by 0", [](In in) { return at::max_pool2d(in[0], 2, 0); }, inputs);
  table.add(
      "max_pool2d padded by too much", [](In in) { return at::max_pool2d(in[0], 2, 1, 2); }, inputs);
  table.add(
      "avg_pool2d", [](In in) { return at::avg_pool2d(in[0], 2); }, inputs);
  table.add(
      "avg_pool2d padded by too much", [](In in) { return at::avg_pool2d(in[0], 2, 1, 2); }, inputs);
  table.add(
      "avg_pool2d divided by 0", [](In in) { return at::avg_pool2d(in[0], 2, 1, 0, false, true, 0); }, inputs);
  table.add("max_pool1d", [](In in) { return at::max_pool1d(in[0], 3); }, {{{2, 4, 5}}, {{4}}, {{2, 2, 4, 5}}});
  table.add("avg_pool1d", [](In in) { return at::avg_pool1d(in[0], 3); }, {{{2, 4, 5}}, {{4}}, {{2, 2, 4, 5}}});
  table.add("max_pool3d", [](In in) { return at::max_pool3d(in[0], 2); },
            {{{2, 4, 3, 3, 3}}, {{2, 4, 1, 3, 3}}, {{4, 3, 3}}});
  table.add(
      "adaptive_avg_pool2d",
      [](In in) {
        return at::adaptive_avg_pool2d(in[0], {3, 3});
      },
      inputs);
  table.add(
      "adaptive_avg_pool2d of no size",
      [](In in) {
        return at::adaptive_avg_pool2d(in[0], {0, -1});
      },
      inputs);
  table.add(
      "adaptive_max_pool2d",
      [](In in) {
        return std::get<0>(at::adaptive_max_pool2d(in[0], {3, 3}));
      },
      inputs);
  table.add(
      "upsample_nearest2d",
      [](In in) {
        return at::upsample_nearest2d(in[0], {7, 3});
      },
      inputs);
  table.add(
      "upsample_nearest2d to nothing",
      [](In in) {
        return at::upsample_nearest2d(in[0], {0, 3});
      },
      inputs);
  table.add(
      "upsample_bilinear2d",
      [](In in) {
        return at::upsample_bilinear2d(in[0], {7, 3}, true);
      },
      inputs);
  table.add("pixel_shuffle", [](In in) { return at::pixel_shuffle(in[0], 2); },
            {{{2, 4, 3, 3}}, {{2, 3, 3, 3}}, {{3, 3}}});
  table.add(
      "reflection_pad2d",
      [](In in) {
        return at::reflection_pad2d(in[0], {1, 1, 4, 4});
      },
      inputs);
  table.add(
      "reflection_pad2d by too much",
      [](In in) {
        return at::reflection_pad2d(in[0], {5, 1, 1, 1});
      },
      inputs);
  table.add(
      "replication_pad2d",
      [](In in) {
        return at::replication_pad2d(in[0], {1, 1, 1, 1});
      },
      inputs);
  table.add("max_pool2d backward",
            [](In in) {
              const auto at = std::get<1>(at::max_pool2d_with_indices(in[1], 2));
              return at::max_pool2d_with_indices_backward(in[0], in[1], 2, 2, 0, 1, false, at);
            },
            {{{2, 4, 2, 2}, {2, 4, 5, 5}}, {{2, 4, 2, 3}, {2, 4, 5, 5}}, {{2, 3, 2, 2}, {2, 4, 5, 5}}});
  table.add("avg_pool2d backward",
            [](In in) { return at::avg_pool2d_backward(in[0], in[1], 2, 2, 0, false, true, {}); },
            {{{2, 4, 2, 2}, {2, 4, 5, 5}}, {{2, 4, 2, 3}, {2, 4, 5, 5}}, {{2, 3, 2, 2}, {2, 4, 5, 5}}});
}

void add_cells(Table& table) {
  table.add("lstm_cell",
            [](In in) {
              return std::get<0>(at::lstm_cell(in[0], {in[1], in[1]}, in[2], in[3], in[4], in[4]));
            },
            {{{4, 3}, {4, 2}, {8, 3}, {8, 2}, {8}},
             {{4, 3}, {4, 2}, {8, 2}, {8, 2}, {8}},
             {{4, 3}, {3, 2}, {8, 3}, {8, 2}, {8}},
             {{4, 3}, {4, 2}, {8, 3}, {8, 2}, {7}},
             {{4, 3}, {4, 3}, {8, 3}, {8, 2}, {8}}});
  table.add("gru_cell", [](In in) { return at::gru_cell(in[0], in[1], in[2], in[3], in[4], in[4]); },
            {{{4, 3}, {4, 2}, {6, 3}, {6, 2}, {6}},
             {{4, 3}, {4, 2}, {6, 2}, {6, 2}, {6}},
             {{4, 3}, {3, 2}, {6, 3}, {6, 2}, {6}},
             {{4, 3}, {4, 2}, {8, 3}, {8, 2}, {8}},
             {{4, 3}, {4, 2}, {6, 3}, {6, 2}, {5}}});
  table.add("rnn_tanh_cell", [](In in) { return at::rnn_tanh_cell(in[0], in[1], in[2], in[3], in[4], in[4]); },
            {{{4, 3}, {4, 2}, {2, 3}, {2, 2}, {2}},
             {{4, 3}, {4, 2}, {2, 2}, {2, 2}, {2}},
             {{4, 3}, {5, 2}, {2, 3}, {2, 2}, {2}}});
  table.add("grid_sampler", [](In in) { return at::grid_sampler(in[0], in[1], 0, 0, true); },
            {{{2, 3, 4, 4}, {2, 2, 2, 2}}, {{2, 3, 4, 4}, {2, 2, 2, 3}}, {{2, 3, 4, 4}, {3, 2, 2, 2}}});
  table.add("pdist", [](In in) { return at::pdist(in[0]); }, {{{4, 3}}, {{4}}});
}

}  // namespace

std::vector<Attempt> layers() {
  Table table;
  add_convolutions(table);
  add_norms(table);
  add_pooling(table);
  add_cells(table);
  return table.take();
}

}  // namespace lockstep::test
