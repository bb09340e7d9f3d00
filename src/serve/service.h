#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "serve/batcher.h"
#include "serve/http_reply.h"
#include "serve/http_request.h"
#include "serve/metrics.h"
#include "serve/model_store.h"
#include "web/page_files.h"

namespace dure::serve {

// What each path answers. Members may be called from several threads.
class Service {
 public:
  using Done = std::function<void(HttpReply)>;

  using Page = std::span<const web::PageFile>;

  // All but `token` outlive it. An empty token: none is asked for.
  Service(const ModelStore& store, Batcher& batcher, Metrics& metrics, std::string token,
          Page page = {})
      : store_(store),
        batcher_(batcher),
        metrics_(metrics),
        token_(std::move(token)),
        page_(page) {}

  // `done` is called once: at once, or from a thread of the batcher.
  void handle(HttpRequest request, Done done);

  // From now on /readyz says that no more requests should come.
  void beginStopping() { stopping_ = true; }
  bool stopping() const { return stopping_; }

 private:
  HttpReply answer(const HttpRequest& request, const std::string& path);
  bool allowed(const HttpRequest& request, const std::string& path) const;
  HttpReply ready() const;
  HttpReply page(const HttpRequest& request, const std::string& path) const;
  HttpReply v1(const std::string& rest) const;
  HttpReply v2(const std::string& rest) const;
  HttpReply missing(const std::string& name) const;
  void predict(HttpRequest request, const std::string& path, Done done);

  const ModelStore& store_;
  Batcher& batcher_;
  Metrics& metrics_;
  const std::string token_;
  const Page page_;
  std::atomic<bool> stopping_{false};
};

}  // namespace dure::serve
