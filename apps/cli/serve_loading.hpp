// Loading the model that a server will have.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>

#include "base/check.hpp"
#include "cli/device_options.hpp"
#include "cli/terminal.hpp"
#include "server/served_model.hpp"

namespace reprofuse::cli {

// A model that is loaded on a thread of its own, so that the server can say so and signals are heard.
class Loading {
 public:
  Loading(const DeviceArguments& device, const server::ServedModelOptions& options)
      : model_(std::async(std::launch::async, [this, context = make_context(device, options.team), options] {
          const Terminal terminal;
          auto model =
              std::make_shared<server::ServedModel>(context, options, [&](std::int64_t done, std::int64_t total) {
                require(!stop_, "loading was stopped");
                terminal.progress(fmt::format("reading {} of {} MB", done / 1'000'000, total / 1'000'000));
              });
          terminal.clear_progress();
          return model;
        })) {}

  bool is_done(std::chrono::milliseconds timeout) const {
    return model_.wait_for(timeout) == std::future_status::ready;
  }
  std::shared_ptr<server::ServedModel> take() { return model_.get(); }

  void stop() {
    stop_ = true;
    model_.wait();
  }

 private:
  std::atomic<bool> stop_ = false;
  std::future<std::shared_ptr<server::ServedModel>> model_;
};

}  // namespace reprofuse::cli
