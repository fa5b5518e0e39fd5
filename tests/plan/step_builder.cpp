#include "step_builder.h"

#include <algorithm>
#include <numeric>

namespace lockstep::test {

using plan::Phase;
using plan::ValueKind;

std::size_t StepBuilder::new_value(const Sizes& sizes, ValueKind kind, const std::string& name, bool floating) {
  global::TensorInfo info{
      .sizes = sizes, .strides = Sizes(sizes.size()), .element_bytes = floating ? 4 : 8, .floating = floating};
  std::int64_t stride = 1;
  for (std::size_t dim = sizes.size(); dim-- > 0; stride *= sizes[dim]) info.strides[dim] = stride;
  graph_.values.push_back({.info = std::move(info), .kind = kind, .name = name});
  return graph_.values.size() - 1;
}

StepBuilder::Values StepBuilder::op(const std::string& name, const Tensors& tensors, const std::vector<Sizes>& outputs,
                                    const Others& others) {
  plan::Node node{.call = {}, .inputs = {}, .outputs = {}, .module = module_, .phase = phase_};
  node.call.name = name;
  for (const auto& [argument, value] : tensors) {
    node.call.arguments.emplace_back(argument, global::TensorAt{node.call.tensors.size()});
    node.call.tensors.push_back(graph_.values[value].info);
    node.inputs.push_back(value);
  }
  for (const auto& each : others) node.call.arguments.push_back(each);
  for (const auto& sizes : outputs) {
    node.outputs.push_back(new_value(sizes, ValueKind::activation));
    node.call.outputs.push_back(graph_.values[node.outputs.back()].info);
  }
  graph_.nodes.push_back(node);
  return node.outputs;
}

void StepBuilder::in_place(const std::string& name, const Tensors& tensors) {
  op(name, tensors, {sizes(tensors[0].second)}, {{"alpha", global::AnyNumber()}});
  auto& node = graph_.nodes.back();
  graph_.values.pop_back();
  node.outputs = {tensors[0].second};
  node.call.in_place = true;
}

std::size_t StepBuilder::input(const std::string& name, const Sizes& sizes, bool floating) {
  return new_value(sizes, ValueKind::input, name, floating);
}
std::size_t StepBuilder::parameter(const std::string& name, const Sizes& sizes) {
  return new_value(sizes, ValueKind::parameter, name);
}
std::size_t StepBuilder::constant(const Sizes& sizes) { return new_value(sizes, ValueKind::activation); }

void StepBuilder::backward_of(std::size_t of, std::function<void(std::size_t)> make) {
  tape_.push_back([this, of, make = std::move(make), module = module_] {
    const auto found = gradients_.find(of);
    if (found == gradients_.end()) return;
    module_ = module;
    make(found->second);
  });
}

void StepBuilder::add_gradient(std::size_t to, std::size_t gradient) {
  const auto kind = graph_.values[to].kind;
  if (kind == ValueKind::input) return;
  const auto [found, is_new] = gradients_.emplace(to, gradient);
  if (!is_new) found->second = one("add", {{"self", found->second}, {"other", gradient}}, sizes(to));
}

std::size_t StepBuilder::transpose(std::size_t x, std::int64_t a, std::int64_t b) {
  Sizes to = sizes(x);
  std::swap(to[static_cast<std::size_t>(a)], to[static_cast<std::size_t>(b)]);
  const auto y = one("transpose", {{"self", x}}, to, {{"dim0", a}, {"dim1", b}});
  backward_of(y, [this, x, a, b](std::size_t g) {
    add_gradient(x, one("transpose", {{"self", g}}, sizes(x), {{"dim0", a}, {"dim1", b}}));
  });
  return y;
}

std::size_t StepBuilder::linear(const std::string& name, std::size_t x, std::int64_t outputs) {
  in_module(name);
  const auto inputs = sizes(x).back();
  const auto weight = parameter(name + ".weight", {outputs, inputs});
  const auto bias = parameter(name + ".bias", {outputs});
  const auto turned = one("t", {{"self", weight}}, {inputs, outputs});
  Sizes to = sizes(x);
  to.back() = outputs;
  const bool matrix = to.size() == 2;
  std::size_t product = 0;
  if (matrix) {
    product = one("addmm", {{"self", bias}, {"mat1", x}, {"mat2", turned}}, to);
  } else {
    const auto rows = one("matmul", {{"self", x}, {"other", turned}}, to);
    product = one("add", {{"self", rows}, {"other", bias}}, to);
  }
  backward_of(product, [this, x, weight, bias, turned, matrix, inputs, outputs](std::size_t g) {
    Sizes leading(sizes(g).size() - 1);
    std::iota(leading.begin(), leading.end(), 0);
    add_gradient(bias, one("sum", {{"self", g}}, {outputs}, {{"dim", leading}, {"keepdim", false}}));
    const auto back =
        one("transpose", {{"self", turned}}, {outputs, inputs}, {{"dim0", std::int64_t{0}}, {"dim1", std::int64_t{1}}});
    if (graph_.values[x].kind != ValueKind::input) {
      const auto of_x = matrix ? one("mm", {{"self", g}, {"mat2", back}}, sizes(x))
                               : one("matmul", {{"self", g}, {"other", back}}, sizes(x));
      add_gradient(x, of_x);
    }
    std::size_t of_turned = 0;
    if (matrix) {
      const auto x_turned = one("t", {{"self", x}}, {inputs, sizes(x)[0]});
      of_turned = one("mm", {{"self", x_turned}, {"mat2", g}}, {inputs, outputs});
    } else {
      of_turned = one("tensordot", {{"self", x}, {"other", g}}, {inputs, outputs},
                      {{"dims_self", leading}, {"dims_other", leading}});
    }
    add_gradient(weight, one("t", {{"self", of_turned}}, {outputs, inputs}));
  });
  return product;
}

std::size_t StepBuilder::convolution(const std::string& name, std::size_t x, std::int64_t channels,
                                     std::int64_t kernel) {
  in_module(name);
  const auto weight = parameter(name + ".weight", {channels, sizes(x)[1], kernel, kernel});
  const auto bias = parameter(name + ".bias", {channels});
  const Others how{{"stride", Sizes{1, 1}},         {"padding", Sizes{kernel / 2, kernel / 2}},
                   {"dilation", Sizes{1, 1}},       {"transposed", false},
                   {"output_padding", Sizes{0, 0}}, {"groups", std::int64_t{1}}};
  const Sizes to{sizes(x)[0], channels, sizes(x)[2], sizes(x)[3]};
  const auto y = one("convolution", {{"input", x}, {"weight", weight}, {"bias", bias}}, to, how);
  backward_of(y, [this, x, weight, bias, how](std::size_t g) {
    auto others = how;
    const bool first = graph_.values[x].kind == ValueKind::input;
    others.emplace_back("output_mask", Sizes{first ? 0 : 1, 1, 1});
    const auto all = op("convolution_backward", {{"grad_output", g}, {"input", x}, {"weight", weight}},
                        {sizes(x), sizes(weight), sizes(bias)}, others);
    add_gradient(x, all[0]);
    add_gradient(weight, all[1]);
    add_gradient(bias, all[2]);
  });
  return y;
}

std::size_t StepBuilder::layer_norm(const std::string& name, std::size_t x) {
  in_module(name);
  const Sizes shape{sizes(x).back()};
  const auto weight = parameter(name + ".weight", shape);
  const auto bias = parameter(name + ".bias", shape);
  Sizes statistics = sizes(x);
  statistics.back() = 1;
  const auto out = op("native_layer_norm", {{"input", x}, {"weight", weight}, {"bias", bias}},
                      {sizes(x), statistics, statistics}, {{"normalized_shape", shape}});
  backward_of(out[0], [this, x, weight, bias, out, shape](std::size_t g) {
    const auto all =
        op("native_layer_norm_backward",
           {{"grad_out", g}, {"input", x}, {"mean", out[1]}, {"rstd", out[2]}, {"weight", weight}, {"bias", bias}},
           {sizes(x), shape, shape}, {{"normalized_shape", shape}, {"output_mask", Sizes{1, 1, 1}}});
    add_gradient(x, all[0]);
    add_gradient(weight, all[1]);
    add_gradient(bias, all[2]);
  });
  return out[0];
}

std::size_t StepBuilder::embedding(const std::string& name, std::size_t indices, std::int64_t rows,
                                   std::int64_t columns) {
  in_module(name);
  const auto weight = parameter(name + ".weight", {rows, columns});
  Sizes to = sizes(indices);
  to.push_back(columns);
  const auto y = one("embedding", {{"weight", weight}, {"indices", indices}}, to);
  backward_of(y, [this, weight, indices, rows](std::size_t g) {
    add_gradient(weight, one("embedding_dense_backward", {{"grad_output", g}, {"indices", indices}}, sizes(weight),
                             {{"num_weights", rows}, {"scale_grad_by_freq", false}}));
  });
  return y;
}

std::size_t StepBuilder::relu(std::size_t x) {
  const auto y = one("relu", {{"self", x}}, sizes(x));
  backward_of(y, [this, x, y](std::size_t g) {
    add_gradient(x, one("threshold_backward", {{"grad_output", g}, {"self", y}}, sizes(x),
                        {{"threshold", global::AnyNumber()}}));
  });
  return y;
}

std::size_t StepBuilder::gelu(std::size_t x) {
  const auto y = one("gelu", {{"self", x}}, sizes(x));
  backward_of(y, [this, x](std::size_t g) {
    add_gradient(x, one("gelu_backward", {{"grad_output", g}, {"self", x}}, sizes(x)));
  });
  return y;
}

std::size_t StepBuilder::add(std::size_t a, std::size_t b) {
  const auto y = one("add", {{"self", a}, {"other", b}}, sizes(a));
  backward_of(y, [this, a, b](std::size_t g) {
    add_gradient(a, g);
    add_gradient(b, g);
  });
  return y;
}

std::size_t StepBuilder::product(std::size_t a, std::size_t b) {
  Sizes to = sizes(a);
  to.back() = sizes(b).back();
  const auto y = one("matmul", {{"self", a}, {"other", b}}, to);
  backward_of(y, [this, a, b](std::size_t g) {
    const auto turned = [&](std::size_t x) {
      Sizes other = sizes(x);
      std::swap(other[other.size() - 1], other[other.size() - 2]);
      return one("transpose", {{"self", x}}, other, {{"dim0", std::int64_t{-2}}, {"dim1", std::int64_t{-1}}});
    };
    const auto b_turned = turned(b);
    add_gradient(a, one("matmul", {{"self", g}, {"other", b_turned}}, sizes(a)));
    const auto a_turned = turned(a);
    add_gradient(b, one("matmul", {{"self", a_turned}, {"other", g}}, sizes(b)));
  });
  return y;
}

std::size_t StepBuilder::softmax(std::size_t x) {
  const auto y = one("_softmax", {{"self", x}}, sizes(x), {{"dim", std::int64_t{-1}}});
  backward_of(y, [this, x, y](std::size_t g) {
    add_gradient(
        x, one("_softmax_backward_data", {{"grad_output", g}, {"output", y}}, sizes(x), {{"dim", std::int64_t{-1}}}));
  });
  return y;
}

std::size_t StepBuilder::masked(std::size_t x, std::size_t mask) {
  const auto y = one("masked_fill", {{"self", x}, {"mask", mask}}, sizes(x));
  backward_of(y, [this, x, mask](std::size_t g) {
    add_gradient(x, one("masked_fill", {{"self", g}, {"mask", mask}}, sizes(x)));
  });
  return y;
}

std::size_t StepBuilder::view(std::size_t x, const Sizes& to) {
  const auto y = one("view", {{"self", x}}, to, {{"size", to}});
  backward_of(y, [this, x](std::size_t g) {
    add_gradient(x, one("view", {{"self", g}}, sizes(x), {{"size", sizes(x)}}));
  });
  return y;
}

std::size_t StepBuilder::copied_view(std::size_t x, const Sizes& to) {
  const auto copy = one("clone", {{"self", x}}, sizes(x));
  const auto y = one("_unsafe_view", {{"self", copy}}, to, {{"size", to}});
  backward_of(y, [this, x](std::size_t g) {
    add_gradient(x, one("view", {{"self", g}}, sizes(x), {{"size", sizes(x)}}));
  });
  return y;
}

std::size_t StepBuilder::pool(std::size_t x) {
  const Sizes to{sizes(x)[0], sizes(x)[1], sizes(x)[2] / 2, sizes(x)[3] / 2};
  const auto y = op("max_pool2d_with_indices", {{"self", x}}, {to, to}, {{"kernel_size", Sizes{2, 2}}});
  backward_of(y[0], [this, x, y](std::size_t g) {
    add_gradient(x, one("max_pool2d_with_indices_backward", {{"grad_output", g}, {"self", x}, {"indices", y[1]}},
                        sizes(x), {{"kernel_size", Sizes{2, 2}}}));
  });
  return y[0];
}

plan::Graph StepBuilder::finish(std::size_t loss_input, std::size_t gradient) {
  add_gradient(loss_input, gradient);
  for (auto each = tape_.rbegin(); each != tape_.rend(); ++each) (*each)();
  phase_ = Phase::optimizer;
  for (std::size_t value = 0; value < graph_.values.size(); ++value) {
    if (graph_.values[value].kind != ValueKind::parameter) continue;
    const auto name = graph_.values[value].name;
    const auto found = gradients_.find(value);
    if (found == gradients_.end()) continue;
    graph_.values[found->second].kind = ValueKind::gradient;
    graph_.values[found->second].name = name;
    module_ = name.substr(0, name.rfind('.'));
    const auto momentum = new_value(sizes(value), ValueKind::optimizer_state, name);
    in_place("mul", {{"self", momentum}});
    in_place("add", {{"self", momentum}, {"other", found->second}});
    in_place("add", {{"self", value}, {"other", momentum}});
  }
  return std::move(graph_);
}

plan::Graph StepBuilder::train(std::size_t logits, std::size_t target) {
  in_module("");
  const auto log = one("_log_softmax", {{"self", logits}}, sizes(logits), {{"dim", std::int64_t{1}}});
  const auto loss =
      op("nll_loss_forward", {{"self", log}, {"target", target}}, {{}, {}}, {{"reduction", std::int64_t{1}}});
  phase_ = Phase::backward;
  const auto seed = one("ones_like", {{"self", loss[0]}}, {});
  const auto of_log =
      one("nll_loss_backward", {{"grad_output", seed}, {"self", log}, {"target", target}, {"total_weight", loss[1]}},
          sizes(log), {{"reduction", std::int64_t{1}}});
  return finish(logits, one("_log_softmax_backward_data", {{"grad_output", of_log}, {"output", log}}, sizes(logits),
                            {{"dim", std::int64_t{1}}}));
}

plan::Graph StepBuilder::train_towards(std::size_t output, std::size_t target) {
  in_module("");
  const auto loss = one("mse_loss", {{"self", output}, {"target", target}}, {}, {{"reduction", std::int64_t{1}}});
  phase_ = Phase::backward;
  const auto seed = one("ones_like", {{"self", loss}}, {});
  return finish(output, one("mse_loss_backward", {{"grad_output", seed}, {"self", output}, {"target", target}},
                            sizes(output), {{"reduction", std::int64_t{1}}}));
}

}  // namespace lockstep::test
