# Makes switchroom@.service, one of several accounts on a computer, of switchroom.service:
#   sed -f instance.sed switchroom.service | sudo tee /etc/systemd/system/switchroom@.service
s|^Description=.*|& (%i)|
s|/etc/switchroom/config\.toml|/etc/switchroom/%i.toml|
s|^\(Environment=.*\)/var/lib/switchroom$|\1/var/lib/switchroom/%i|
s|^StateDirectory=switchroom|&/%i|
