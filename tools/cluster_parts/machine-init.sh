#!/bin/sh
# The first process of a machine: makes its mounts, which nobody else sees, and waits.
#   machine-init.sh NAME FOLDER PAUSE
# FOLDER is the machine's disk; PAUSE is a program that does nothing but reap.
set -eu
name=$1 folder=$2 pause=$3

# The kubelet would set these for the whole host; here it finds what it wants and leaves the host alone.
kernel_setting() {
  echo "$2" > "$folder/sysctl/$1"
  [ ! -e "/proc/sys/$1" ] || mount --bind "$folder/sysctl/$1" "/proc/sys/$1"
}

hostname "$name"
mkdir -p "$folder/sysctl/vm" "$folder/sysctl/kernel/keys"
kernel_setting vm/overcommit_memory 1
kernel_setting vm/panic_on_oom 0
kernel_setting kernel/panic 10
kernel_setting kernel/panic_on_oops 1
kernel_setting kernel/keys/root_maxkeys 1000000
kernel_setting kernel/keys/root_maxbytes 25000000

# Sockets, pods' network namespaces and etcd's data are in /run; the rest is on the machine's disk.
for place in log cni containerd kubelet; do mkdir -p "$folder/$place"; done
mount --bind "$folder/hosts" /etc/hosts
mount --bind "$folder/log" /var/log
mount --bind "$folder/cni" /var/lib/cni
mount -t tmpfs -o mode=755 run /run
mkdir /run/lock /run/disk
mount --bind "$folder" /run/disk
# A volume may be mounted with propagation between pods of this machine.
mount --make-rshared /

ip link set lo up
touch "$folder/ready"
exec "$pause"
