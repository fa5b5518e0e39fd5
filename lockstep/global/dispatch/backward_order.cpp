#include <lockstep/global/dispatch/backward_order.h>
#include <lockstep/global/tensor_state.h>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/basic_ops.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace lockstep::global {
namespace {

using torch::autograd::Engine;
using torch::autograd::GraphRoot;
using torch::autograd::InputBuffer;

class OrderedEngine : public Engine {
 public:
  ~OrderedEngine() override { stop(); }

  c10::intrusive_ptr<at::ivalue::Future> execute_with_graph_task(
      const std::shared_ptr<torch::autograd::GraphTask>& task, std::shared_ptr<torch::autograd::Node> root,
      InputBuffer&& inputs) override {
    if (const auto* several = dynamic_cast<const GraphRoot*>(root.get())) {
      const auto& gradients = several->outputs;
      const auto global = std::find_if(gradients.begin(), gradients.end(), is_global);
      // What the root is given decides which thread it runs on; it does not look at it.
      if (global != gradients.end()) inputs = InputBuffer(torch::autograd::variable_list{*global});
    }
    return Engine::execute_with_graph_task(task, std::move(root), std::move(inputs));
  }
};

Engine& ordered_engine() {
  static OrderedEngine engine;
  return engine;
}

}  // namespace

void order_backward() {
  if (&Engine::get_default_engine() == &Engine::get_base_engine()) {
    torch::autograd::set_default_engine_stub(ordered_engine);
  }
}

}  // namespace lockstep::global
